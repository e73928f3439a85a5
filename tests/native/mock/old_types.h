// Signatures of entry points that the driver still exports but its headers no longer describe.
#pragma once

#include <cuda.h>

typedef CUresult(CUDAAPI* PFN_cuGraphInstantiate_v10000)(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);
typedef CUresult(CUDAAPI* PFN_cuGraphInstantiate_v11000)(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);
typedef CUresult(CUDAAPI* PFN_cuStreamBeginCapture_v10000)(CUstream);
typedef CUresult(CUDAAPI* PFN_cuMemHostRegister_v4000)(void*, size_t, unsigned int);
typedef CUresult(CUDAAPI* PFN_cuDevicePrimaryCtxReset_v7000)(CUdevice);
typedef CUresult(CUDAAPI* PFN_cuDevicePrimaryCtxRelease_v7000)(CUdevice);
