/* Counts of vectors for which a tile is compiled. */
#define CASES_4(X) X(1) X(2) X(3) X(4)
#define CASES_3(X) X(1) X(2) X(3)
#define CASES_6(X) CASES_4(X) X(5) X(6)
#define CASES_8(X) CASES_6(X) X(7) X(8)
#define CASES_7(X) CASES_6(X) X(7)
#define CASES_12(X) CASES_8(X) X(9) X(10) X(11) X(12)
#define CASES_15(X) CASES_12(X) X(13) X(14) X(15)
#define CASES_16(X) CASES_15(X) X(16)
