// Prints what a table of costs says, in nanoseconds, for each size: cost_table TABLE BYTES…
#include "cost_table.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const cctrace::CostTable table = cctrace::CostTable::parse(argv[1]);
  printf("%s", table.empty() ? "empty" : "costs");
  for (int i = 2; i < argc; i++)
    printf(" %llu", static_cast<unsigned long long>(table.ns(strtoull(argv[i], nullptr, 10))));
  printf("\n");
  return 0;
}
