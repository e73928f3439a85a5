// The wrapped entry points, found by the names that programs ask for.
#pragma once

namespace cctrace {
namespace interposer {

// Our wrapper for an exported symbol of libcuda, given what the program would get without us; `real` itself
// if the symbol is none of ours.
void* wrap_symbol(const char* symbol, void* real);

// The same for a name and version asked of cuGetProcAddress.
void* wrap_name(const char* name, int version, bool per_thread, void* real);

}  // namespace interposer
}  // namespace cctrace
