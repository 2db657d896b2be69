// Time products of a square sparse matrix with itself by the kernels that TACO generates by default.
// taco_products FILE THREADS EXPRESSION...: FILE holds int32 n and nnz, indptr, indices, then float64 values.
// One line of JSON per expression: the median seconds of three runs after a first one (that one, if it takes 1 s), and the sum of the result.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "taco.h"

using namespace taco;

static std::vector<int> indptr, indices, colptr, rows;
static std::vector<double> values, by_columns;
static int n;

static void read(const char *path)
{
  FILE *file = fopen(path, "rb");
  int sizes[2];
  if (!file || fread(sizes, sizeof(int), 2, file) != 2) exit(2);
  n = sizes[0];
  indptr.resize(n + 1), indices.resize(sizes[1]), values.resize(sizes[1]);
  size_t found = fread(indptr.data(), sizeof(int), indptr.size(), file);
  found += fread(indices.data(), sizeof(int), indices.size(), file);
  found += fread(values.data(), sizeof(double), values.size(), file);
  if (found != indptr.size() + 2 * values.size()) exit(2);
  fclose(file);
  colptr.assign(n + 1, 0), rows.resize(values.size()), by_columns.resize(values.size());
  for (int j : indices) colptr[j + 1]++;
  for (int j = 0; j < n; j++) colptr[j + 1] += colptr[j];
  std::vector<int> next(colptr.begin(), colptr.end() - 1);
  for (int i = 0; i < n; i++)
    for (int p = indptr[i]; p < indptr[i + 1]; p++) {
      rows[next[indices[p]]] = i;
      by_columns[next[indices[p]]++] = values[p];
    }
}

static Tensor<double> by_rows(const std::string &name)
{
  return makeCSR<double>(name, {n, n}, indptr.data(), indices.data(), values.data());
}

// Return the seconds of assembling and computing; a kernel is compiled once per statement and then reused.
static double run(Tensor<double> result)
{
  result.compile();
  const auto start = std::chrono::steady_clock::now();
  result.assemble();
  result.compute();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static double total(const Tensor<double> &result)
{
  const double *data = (const double *)result.getStorage().getValues().getData();
  const size_t size = result.getStorage().getValues().getSize();
  double sum = 0;
  for (size_t m = 0; m < size; m++) sum += data[m];
  return sum;
}

static void report(const std::string &expression, const std::function<std::pair<double, double>()> &once)
{
  const auto first = once();
  std::vector<double> times = {first.first};
  if (first.first < 1) times = {once().first, once().first, once().first};
  std::sort(times.begin(), times.end());
  printf("{\"expression\": \"%s\", \"s\": %.9g, \"sum\": %.17g}\n", expression.c_str(), times[times.size() / 2], first.second);
  fflush(stdout);
}

int main(int argc, char **argv)
{
  read(argv[1]);
  taco_set_num_threads(atoi(argv[2]));
  const Format csr({Dense, Sparse});
  Tensor<double> A = by_rows("A"), B = by_rows("B"), C = by_rows("C"), D = by_rows("D");
  Tensor<double> E = makeCSC<double>("E", {n, n}, colptr.data(), rows.data(), by_columns.data());
  IndexVar i("i"), j("j"), k("k"), l("l");
  for (int at = 3; at < argc; at++) {
    const std::string expression = argv[at];
    report(expression, [&] {
      double seconds = 0;
      if (expression == "ij,jk->ik" || expression == "ij,jk,kl->il") {
        Tensor<double> P("P", {n, n}, csr);
        P(i, k) = A(i, j) * B(j, k);
        seconds = run(P);
        if (expression == "ij,jk->ik") return std::make_pair(seconds, total(P));
        Tensor<double> R("R", {n, n}, csr);
        R(i, l) = P(i, k) * C(k, l);
        seconds += run(R);
        return std::make_pair(seconds, total(R));
      }
      if (expression == "ij,ik,kj->ij") {
        Tensor<double> R("R", {n, n}, csr);
        R(i, j) = A(i, j) * B(i, k) * E(k, j);
        seconds = run(R);
        return std::make_pair(seconds, total(R));
      }
      Tensor<double> R("R");
      if (expression == "ij,jk,ik->") R = sum(i, sum(j, sum(k, A(i, j) * B(j, k) * C(i, k))));
      else R = sum(i, sum(j, sum(k, sum(l, A(i, j) * B(j, k) * C(k, l) * D(i, l)))));
      seconds = run(R);
      return std::make_pair(seconds, total(R));
    });
  }
}
