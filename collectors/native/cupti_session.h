// The second recording: GPU rows from CUPTI's activity API (--gpu graphs or nodes). It slows the program
// down, so host times of such a recording are not used for tolls.
#pragma once

// Called by the CUDA driver inside cuInit, when CUDA_INJECTION64_PATH names this library. Always 1: a refusal
// of CUPTI becomes the state `gpu.state` of the recording and one line on stderr, and the program goes on.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void);
