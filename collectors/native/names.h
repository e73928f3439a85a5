// Symbols of kernels, asked of the driver once per handle and thread.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "collectives.h"

namespace cctrace {

struct ThreadState;

namespace names {

// String id of the symbol behind a function (or kernel) handle; 0 if it has none or names are switched off.
uint32_t of(ThreadState* state, CUfunction function);

// What the kernel moves between GPUs, by its symbol.
collectives::Kernel transfer_of(ThreadState* state, CUfunction function);

// Code was unloaded: handles may come again with another meaning.
void forget();

}  // namespace names
}  // namespace cctrace
