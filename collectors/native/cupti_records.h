// From CUPTI's activity records to spool records. Calls nothing of CUPTI, so it may run inside CUPTI's
// callbacks.
#pragma once

#include <cupti.h>

#include "record.h"

namespace cctrace {
namespace cupti {

enum class Outcome {
  kept,        // `*out` is filled
  unwanted,    // a kind or a host call that the trace has no use for
  untimed,     // CUPTI ran out of space for time stamps: both are zero
  unfinished,  // handed out by a forced flush before its end was known
};

// Text of the name of a host call (from ApiNames), or null if the call is not kept.
using ApiName = const char* (*)(bool driver, CUpti_CallbackId id);

// Converts one record. Strings are interned in the spool.
Outcome convert(const CUpti_Activity* activity, ApiName api_name, Record* out);

}  // namespace cupti
}  // namespace cctrace
