#include "cupti_calls.h"

#include <string.h>

namespace cctrace {
namespace cupti {
namespace {

// Above every callback id of CUPTI 12.9 to 13.5 (about 900); asking for an unknown one is an error that costs
// nothing.
constexpr CUpti_CallbackId kIdLimit = 2048;

// cudaEventQuery, allocations and attribute getters make no GPU row, and polling loops would make millions of
// them.
constexpr const char* kKeptParts[] = {"Launch",     "Memcpy",      "Memset",   "Prefetch",
                                      "Decompress", "Synchronize", "WaitEvent"};

const char* g_names[2][kIdLimit];  // [0] runtime, [1] driver; CUPTI owns the texts and never frees them

bool is_kept(const char* name) {
  for (const char* part : kKeptParts) {
    if (strstr(name, part)) return true;
  }
  return false;
}

using Switch = CUptiResult (*)(CUpti_CallbackId, uint8_t);

CUptiResult enable(const Functions& functions, bool driver, Switch one_call, CUpti_ActivityKind all_calls) {
  if (!one_call) return functions.cuptiActivityEnable(all_calls);
  for (CUpti_CallbackId id = 1; id < kIdLimit; id++) {
    if (!kept_call(driver, id)) continue;
    const CUptiResult result = one_call(id, 1);
    if (result != CUPTI_SUCCESS) return result;
  }
  return CUPTI_SUCCESS;
}

}  // namespace

void learn_calls(const Functions& functions) {
  const CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API};
  for (int driver = 0; driver < 2; driver++) {
    for (CUpti_CallbackId id = 1; id < kIdLimit; id++) {
      const char* name = nullptr;
      if (functions.cuptiGetCallbackName(domains[driver], id, &name) != CUPTI_SUCCESS || !name) continue;
      if (is_kept(name)) g_names[driver][id] = name;
    }
  }
}

const char* kept_call(bool driver, CUpti_CallbackId id) {
  return id < kIdLimit ? g_names[driver][id] : nullptr;
}

CUptiResult enable_calls(const Functions& functions) {
  const CUptiResult runtime =
      enable(functions, false, functions.cuptiActivityEnableRuntimeApi, CUPTI_ACTIVITY_KIND_RUNTIME);
  const CUptiResult driver =
      enable(functions, true, functions.cuptiActivityEnableDriverApi, CUPTI_ACTIVITY_KIND_DRIVER);
  return runtime != CUPTI_SUCCESS ? runtime : driver;
}

}  // namespace cupti
}  // namespace cctrace
