// Uses every NVTX call that the collector listens to. The first argument names the moment CUDA is first used:
// "before" the ranges, "inside" the first of them, or "never".
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

#include <thread>

namespace {

void use_cuda() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))(0);
  reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuStreamSynchronize"))(nullptr);
}

nvtxEventAttributes_t event() {
  nvtxEventAttributes_t e{};
  e.version = NVTX_VERSION;
  e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return e;
}

nvtxEventAttributes_t ascii(const char* text) {
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_ASCII;
  e.message.ascii = text;
  return e;
}

nvtxEventAttributes_t wide(const wchar_t* text) {
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  e.message.unicode = text;
  return e;
}

nvtxEventAttributes_t registered(nvtxStringHandle_t text) {
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  e.message.registered = text;
  return e;
}

void default_domain() {
  printf("depths %d", nvtxRangePushA("outer"));
  printf(" %d", nvtxRangePushW(L"inner µ €"));
  const nvtxEventAttributes_t e = ascii("innermost");
  printf(" %d", nvtxRangePushEx(&e));
  printf(" %d", nvtxRangePop());
  printf(" %d", nvtxRangePop());
  printf(" %d", nvtxRangePop());
  printf(" %d\n", nvtxRangePop() < 0 ? -1 : 1);

  const nvtxRangeId_t a = nvtxRangeStartA("started");
  const nvtxRangeId_t w = nvtxRangeStartW(L"started wide");
  const nvtxEventAttributes_t s = wide(L"started by event");
  const nvtxRangeId_t x = nvtxRangeStartEx(&s);
  std::thread([=] { nvtxRangeEnd(a); }).join();
  nvtxRangeEnd(x);
  nvtxRangeEnd(w);
  nvtxRangeEnd(12345678);  // never started

  nvtxMarkA("moment");
  nvtxMarkW(L"moment wide");
  const nvtxEventAttributes_t m = ascii("moment by event");
  nvtxMarkEx(&m);
}

void own_domain() {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("engine");
  nvtxDomainHandle_t same = nvtxDomainCreateW(L"engine");
  nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "registered");
  nvtxStringHandle_t text_w = nvtxDomainRegisterStringW(domain, L"registered wide");
  const nvtxEventAttributes_t a = registered(text), w = registered(text_w), plain = ascii("domain range");
  nvtxDomainRangePushEx(domain, &a);
  nvtxRangePushA("default beside it");
  nvtxDomainRangePushEx(same, &w);
  nvtxDomainRangePop(domain);
  nvtxDomainRangePop(domain);
  nvtxRangePop();
  const nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &plain);
  nvtxDomainRangeEnd(domain, id);
  nvtxDomainMarkEx(domain, &plain);
  nvtxEventAttributes_t nothing = event();
  nvtxDomainMarkEx(domain, &nothing);
  nvtxDomainDestroy(domain);
}

}  // namespace

int main(int argc, char** argv) {
  const char* when = argc > 1 ? argv[1] : "before";
  if (!strcmp(when, "before")) use_cuda();
  nvtxRangePushA("begun first");
  if (!strcmp(when, "inside")) use_cuda();
  default_domain();
  own_domain();
  nvtxRangePop();
  for (int i = 0; i < 3; i++) {
    nvtxRangePushA("step[DECODE bs=16]");
    nvtxRangePop();
  }
  return 0;
}
