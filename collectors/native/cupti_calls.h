// Which runtime and driver calls CUPTI shall report: those that launch, copy or wait, so that a GPU row finds
// its host call.
#pragma once

#include <cupti.h>

#include "cupti_library.h"

namespace cctrace {
namespace cupti {

// Asks CUPTI for the names of all calls. Once, before anything is enabled.
void learn_calls(const Functions& functions);

// Name of a call that is kept; null for all others. Safe inside CUPTI's callbacks.
const char* kept_call(bool driver, CUpti_CallbackId id);

// Makes CUPTI report the kept calls, and no others where the library can choose. The first error, or success.
CUptiResult enable_calls(const Functions& functions);

}  // namespace cupti
}  // namespace cctrace
