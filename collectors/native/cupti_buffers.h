// The memory that CUPTI fills with activity records, and what becomes of it.
#pragma once

#include <cupti.h>

#include "cupti_library.h"

namespace cctrace {
namespace cupti {

// Registers the two buffer callbacks. Buffers are handed out zeroed, so that CUPTI need not do it on the
// program's threads.
CUptiResult register_buffers(const Functions& functions);

// While false, completed buffers are thrown away (and counted nowhere: nothing was wanted).
void keep_records(bool wanted);

// Notes the records that were lost so far.
void report_losses();

}  // namespace cupti
}  // namespace cctrace
