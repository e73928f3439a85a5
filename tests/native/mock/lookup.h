// Names that cuGetProcAddress knows.
#pragma once

#include <vector>

namespace mock {

struct LookupRow {
  const char* name;
  int version;
  void* function;
  void* per_thread;  // null: the same for both kinds of default stream
};

const std::vector<LookupRow>& wrapped_rows();
const std::vector<LookupRow>& other_rows();

}  // namespace mock
