// Submissions whose names are newer than driver_api.def: counted by name, their arguments not understood.
#pragma once

namespace cctrace {
namespace unknown {

// A counting jump to `real` if the name looks like a submission, else `real`.
void* wrap_if_submission(const char* name, void* real);

}  // namespace unknown
}  // namespace cctrace
