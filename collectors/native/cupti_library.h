// libcupti, found and resolved at run time: never linked, never shipped, never a second copy in one process.
#pragma once

#include <cupti.h>

#include <string>

namespace cctrace {
namespace cupti {

#define CCTRACE_CUPTI_REQUIRED(X)           \
  X(cuptiGetVersion)                        \
  X(cuptiGetResultString)                   \
  X(cuptiSubscribe)                         \
  X(cuptiUnsubscribe)                       \
  X(cuptiEnableDomain)                      \
  X(cuptiGetCallbackName)                   \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivitySetAttribute)              \
  X(cuptiSetThreadIdType)

// Absent from older libraries: cuptiSubscribe_v2 before 13.0, the per-call switches before 12.5,
// ...AllSyncRecords before 12.9.
#define CCTRACE_CUPTI_OPTIONAL(X)  \
  X(cuptiSubscribe_v2)             \
  X(cuptiActivityEnableDriverApi)  \
  X(cuptiActivityEnableRuntimeApi) \
  X(cuptiActivityEnableAllSyncRecords)

struct Functions {
#define CCTRACE_MEMBER(f) decltype(&::f) f = nullptr;
  CCTRACE_CUPTI_REQUIRED(CCTRACE_MEMBER)
  CCTRACE_CUPTI_OPTIONAL(CCTRACE_MEMBER)
#undef CCTRACE_MEMBER
};

// Fills `functions` from the libcupti that this process uses already, else the one beside its libcudart, else
// CCTRACE_LIBCUPTI, else the loader's search path. On success `where` says which; otherwise false, and
// `where` says why.
bool load(Functions* functions, std::string* where);

// CUPTI's own name of a result; never null.
const char* result_text(const Functions& functions, CUptiResult result);

}  // namespace cupti
}  // namespace cctrace
