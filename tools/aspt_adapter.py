"""Build ASpT (Hong et al., PPoPP 2019) with GCC, as a peer of `benchmarks/peers.py`.

    git clone https://github.com/LucasWilkinson/ASpT-mirror build/aspt
    python tools/aspt_adapter.py build/aspt build/aspt/adapters
    python benchmarks/peers.py --adapter aspt=build/aspt/adapters/spmm.so --ops spmm32,spmm128 ...
    python benchmarks/peers.py --adapter aspt=build/aspt/adapters/sddmm.so --ops sddmm32 ...

The published programs are written for icc and Xeon Phi. They read a file, and have no function to call. This script
takes the analysis (`gen`) and the loops of one product from them, sets the number of threads, and adds the functions
of `benchmarks/peerlib/peer_abi.h`. icc's `ivdep` becomes GCC's, pointers do not alias, and other directives of icc are
removed. SDDMM's values are copied to the order of A, since ASpT leaves them in its own.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

SOURCES: Final = {"spmm": "SpMM_KNL/SpMM_ASpT_SP.cc", "sddmm": "SDDMM_CPU/SDDMM_ASpT_SP.cc"}
"""Operation -> file of the version in float32."""
FLAGS: Final = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-fopenmp", "-w", "-shared", "-fPIC"
)  # fmt: skip
HEADERS: Final = """#include <cstdint>
#include <cstring>
#include <cstdlib>
#include <vector>
#define __assume_aligned(pointer, bytes)
static int threads_wanted = 1;
"""
INTERFACE: Final = """
static std::vector<int> place;

extern "C" void *peer_prepare(const char *operation, const char *dtype, int64_t n_rows, int64_t n_cols, int64_t columns,
                              const int32_t *indptr, const int32_t *indices, const void *values, int n_threads) {
    if (strcmp(dtype, "float32") || strncmp(operation, "@OPERATION@", strlen("@OPERATION@"))) return nullptr;
    threads_wanted = n_threads > NTHREAD ? NTHREAD : n_threads;
    sc = (int)columns, nr0 = (int)n_rows, nc = (int)n_cols, ne = indptr[n_rows], nr = CEIL(nr0, BH) * BH;
    npanel = CEIL(nr, BH), special_p = 0, vari = avg = 0;
    memset(avg0, 0, sizeof(avg0));
    const size_t n = (size_t)ne + 256;
    csr_v = (int *)malloc(sizeof(int) * (nr + 1));
    for (int i = 0; i <= nr; i++) csr_v[i] = indptr[i < nr0 ? i : nr0];
    csr_e0 = (int *)calloc(n, sizeof(int)), csr_e = (int *)calloc(n, sizeof(int));
    csr_ev0 = (FTYPE *)calloc(n, sizeof(FTYPE)), csr_ev = (FTYPE *)calloc(n, sizeof(FTYPE));
    memcpy(csr_e0, indices, sizeof(int) * ne);
    memcpy(csr_ev0, values, sizeof(FTYPE) * ne);
    gen();
#ifdef SAMPLED
    ocsr_ev = (FTYPE *)calloc(n, sizeof(FTYPE));
    place.resize(ne);
    std::vector<int> at(nc);
    for (int i = 0; i < nr0; i++) {
        for (int p = csr_v[i]; p < csr_v[i + 1]; p++) at[csr_e0[p]] = p;
        for (int p = csr_v[i]; p < csr_v[i + 1]; p++) place[p] = at[csr_e[p]];
    }
#endif
    return csr_v;
}

#ifdef SAMPLED
extern "C" void peer_run(void *, const void *, void *) {}
extern "C" void peer_run_sampled(void *, const void *X, const void *Y, void *values) {
    memset(ocsr_ev, 0, sizeof(FTYPE) * ne);
    product((FTYPE *)Y, (FTYPE *)X);
    #pragma omp parallel for num_threads(threads_wanted)
    for (int p = 0; p < ne; p++) ((FTYPE *)values)[place[p]] = ocsr_ev[p];
}
#else
extern "C" void peer_run(void *, const void *B, void *C) {
    memset(C, 0, sizeof(FTYPE) * nr0 * sc);
    product((FTYPE *)B, (FTYPE *)C);
}
#endif

extern "C" void peer_free(void *) {
    free(csr_v), free(csr_e0), free(csr_e), free(csr_ev0), free(csr_ev);
    free(special), free(special2), free(mcsr_cnt), free(mcsr_chk), free(mcsr_e);
#ifdef SAMPLED
    free(ocsr_ev);
#endif
}
"""


def adapter(text: str, operation: str) -> str:
    """Return C++ with the analysis and the product of a published program, and the functions of a peer."""
    text = text.replace('#include "mkl.h"', "")
    text = re.sub(r"num_threads\(\w+\)", "num_threads(threads_wanted)", text)
    # Small matrices have more panels than entries, and the second half of a run may have more than 128 columns.
    text = re.sub(r"(mcsr_e = \(int \*\)malloc\(sizeof\(int\)\*)ne\)", r"\1((size_t)2 * ne + 4 * nr + 1024))", text)
    text = re.sub(r"(memset\(mcsr_e, 0, sizeof\(int\)\*)ne\)", r"\1((size_t)2 * ne + 4 * nr + 1024))", text)
    text = text.replace("temp_r[128]", "temp_r[1024]")
    text = re.sub(r'fprintf\(stdout, "%f,%f,", elapsed0', "//", text)
    head, rest = text.split("void mprocess()", 1)
    body = rest[rest.index("if(vari <") : rest.index("} // end loop")] + "} }"
    body = re.sub(r"gettimeofday\([^;]*;", "", body.replace("#define ITER (128*1/128)", ""))
    body = re.sub(r"//#pragma[^\n]*\n", "", body)
    body = re.sub(r"#pragma (vector|temporal|prefetch)[^\n]*\n", "", body)
    body = re.sub(r"#pragma ivdep(\s*for\()", r"#pragma GCC ivdep\1", body)
    body = re.sub(r"#pragma ivdep[^\n]*\n", "", body)
    is_sampled = operation == "sddmm"
    local = "FTYPE *__restrict ocsr_ev = ::ocsr_ev;" if is_sampled else ""
    begin = f"static void product(FTYPE *__restrict vin, FTYPE *__restrict vout) {{\n{local}\n"
    product = f"#define ITER 1\n{begin}{body}\n}}\n"
    sampled = "#define SAMPLED\n" if is_sampled else ""
    return HEADERS + sampled + head + product + INTERFACE.replace("@OPERATION@", operation)


def main() -> int:
    """Write and compile both adapters."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folder", type=Path, help="folder for the adapters")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for operation, name in SOURCES.items():
        source = args.folder / f"{operation}.cc"
        source.write_text(adapter((args.checkout / name).read_text(errors="replace"), operation), encoding="utf-8")
        library = args.folder / f"{operation}.so"
        subprocess.run(["g++", *FLAGS, str(source), "-o", str(library)], check=True)
        print(library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
