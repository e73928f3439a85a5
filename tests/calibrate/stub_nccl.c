// A libnccl.so.2 that counts: collectives take no time, and it writes to stdout like NCCL_DEBUG=INFO.
//
// STUB_NCCL_FAIL: `symbol=code`, a call that fails. STUB_NCCL_HANG=1: the start never ends.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int depth;

static int enter(const char* symbol) {
  const char* text = getenv("STUB_NCCL_FAIL");
  const size_t length = strlen(symbol);
  return text && strncmp(text, symbol, length) == 0 && text[length] == '=' ? atoi(text + length + 1) : 0;
}

int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
const char* ncclGetErrorString(int code) { return code == 5 ? "invalid usage" : "unhandled system error"; }
int ncclCommInitAll(void** ranks, int count, const int* gpus) {
  printf("NCCL INFO %d GPUs\n", count);
  fflush(stdout);
  if (getenv("STUB_NCCL_HANG")) pause();
  for (int i = 0; i < count; i++) {
    if (gpus[i] != i) return 4;
    ranks[i] = &ranks[i];
  }
  return enter("ncclCommInitAll");
}
int ncclCommDestroy(void* rank) { return rank ? 0 : 4; }
int ncclGroupStart(void) {
  depth++;
  return 0;
}
int ncclGroupEnd(void) { return --depth == 0 ? enter("ncclGroupEnd") : 5; }
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* rank, void* stream) {
  const int fine = depth == 1 && from && to && count && type == 7 && operation == 0 && rank && stream;
  return fine ? enter("ncclAllReduce") : 5;
}
int ncclSend(const void* from, size_t count, int type, int peer, void* rank, void* stream) {
  const int fine = depth == 1 && from && count && type == 0 && peer >= 0 && rank && stream;
  return fine ? enter("ncclSend") : 5;
}
int ncclRecv(void* to, size_t count, int type, int peer, void* rank, void* stream) {
  return ncclSend(to, count, type, peer, rank, stream);
}
