// NVTX without CUPTI: what NVTX_INJECTION64_PATH loads. Every library that uses NVTX brings its own copy of
// the NVTX loader and attaches separately; all of them meet here.
#include <nvtx3/nvToolsExt.h>

#include "config.h"
#include "labels.h"
#include "nvtx_ranges.h"

namespace cctrace {
namespace nvtx {
namespace {

// Longest label that is kept; the same limit as the spool's.
constexpr size_t kMaxLabel = 4096;

// What a string handle points to. Handles are never freed: NVTX has no call for it.
struct RegisteredString {
  std::string text;
};

Domain* of(nvtxDomainHandle_t handle) { return reinterpret_cast<Domain*>(handle); }

// Calls `use` with the message of an event, as UTF-8.
template <class Use>
auto with_message(const nvtxEventAttributes_t* event, Use use) {
  if (event && event->messageType == NVTX_MESSAGE_TYPE_ASCII) return use(event->message.ascii);
  if (event && event->messageType == NVTX_MESSAGE_TYPE_REGISTERED && event->message.registered) {
    return use(reinterpret_cast<const RegisteredString*>(event->message.registered)->text.c_str());
  }
  if (event && event->messageType == NVTX_MESSAGE_TYPE_UNICODE) {
    char text[kMaxLabel];
    labels::to_utf8(event->message.unicode, text, sizeof text);
    return use(static_cast<const char*>(text));
  }
  return use(static_cast<const char*>(nullptr));
}

template <class Use>
auto with_wide(const wchar_t* message, Use use) {
  char text[kMaxLabel];
  labels::to_utf8(message, text, sizeof text);
  return use(static_cast<const char*>(text));
}

void NVTX_API mark_ex(const nvtxEventAttributes_t* event) {
  with_message(event, [](const char* text) { mark(nullptr, text); });
}
void NVTX_API mark_a(const char* message) { mark(nullptr, message); }
void NVTX_API mark_w(const wchar_t* message) {
  with_wide(message, [](const char* text) { mark(nullptr, text); });
}
nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t* event) {
  return with_message(event, [](const char* text) { return start(nullptr, text); });
}
nvtxRangeId_t NVTX_API start_a(const char* message) { return start(nullptr, message); }
nvtxRangeId_t NVTX_API start_w(const wchar_t* message) {
  return with_wide(message, [](const char* text) { return start(nullptr, text); });
}
void NVTX_API range_end(nvtxRangeId_t id) { end(id); }
int NVTX_API push_ex(const nvtxEventAttributes_t* event) {
  return with_message(event, [](const char* text) { return push(nullptr, text); });
}
int NVTX_API push_a(const char* message) { return push(nullptr, message); }
int NVTX_API push_w(const wchar_t* message) {
  return with_wide(message, [](const char* text) { return push(nullptr, text); });
}
int NVTX_API range_pop() { return pop(nullptr); }

void NVTX_API domain_mark_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  with_message(event, [domain](const char* text) { mark(of(domain), text); });
}
nvtxRangeId_t NVTX_API domain_start_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return with_message(event, [domain](const char* text) { return start(of(domain), text); });
}
void NVTX_API domain_range_end(nvtxDomainHandle_t, nvtxRangeId_t id) { end(id); }
int NVTX_API domain_push_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return with_message(event, [domain](const char* text) { return push(of(domain), text); });
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return pop(of(domain)); }

nvtxDomainHandle_t NVTX_API domain_create_a(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(domain(name));
}
nvtxDomainHandle_t NVTX_API domain_create_w(const wchar_t* name) {
  return with_wide(name, [](const char* text) { return domain_create_a(text); });
}
nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(new RegisteredString{text ? text : ""});
}
nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t domain, const wchar_t* text) {
  return with_wide(text, [domain](const char* utf8) { return register_a(domain, utf8); });
}

struct Entry {
  unsigned int id;
  NvtxFunctionPointer function;
};

template <class F>
NvtxFunctionPointer as_entry(F function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

const Entry kCore[] = {
    {NVTX_CBID_CORE_MarkEx, as_entry(mark_ex)},      {NVTX_CBID_CORE_MarkA, as_entry(mark_a)},
    {NVTX_CBID_CORE_MarkW, as_entry(mark_w)},        {NVTX_CBID_CORE_RangeStartEx, as_entry(start_ex)},
    {NVTX_CBID_CORE_RangeStartA, as_entry(start_a)}, {NVTX_CBID_CORE_RangeStartW, as_entry(start_w)},
    {NVTX_CBID_CORE_RangeEnd, as_entry(range_end)},  {NVTX_CBID_CORE_RangePushEx, as_entry(push_ex)},
    {NVTX_CBID_CORE_RangePushA, as_entry(push_a)},   {NVTX_CBID_CORE_RangePushW, as_entry(push_w)},
    {NVTX_CBID_CORE_RangePop, as_entry(range_pop)},
};

const Entry kCore2[] = {
    {NVTX_CBID_CORE2_DomainMarkEx, as_entry(domain_mark_ex)},
    {NVTX_CBID_CORE2_DomainRangeStartEx, as_entry(domain_start_ex)},
    {NVTX_CBID_CORE2_DomainRangeEnd, as_entry(domain_range_end)},
    {NVTX_CBID_CORE2_DomainRangePushEx, as_entry(domain_push_ex)},
    {NVTX_CBID_CORE2_DomainRangePop, as_entry(domain_pop)},
    {NVTX_CBID_CORE2_DomainRegisterStringA, as_entry(register_a)},
    {NVTX_CBID_CORE2_DomainRegisterStringW, as_entry(register_w)},
    {NVTX_CBID_CORE2_DomainCreateA, as_entry(domain_create_a)},
    {NVTX_CBID_CORE2_DomainCreateW, as_entry(domain_create_w)},
};

template <size_t N>
bool attach(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module, const Entry (&entries)[N]) {
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (!callbacks.GetModuleFunctionTable(module, &table, &size) || !table) return false;
  for (const Entry& entry : entries) {
    if (entry.id < size && table[entry.id]) *table[entry.id] = entry.function;
  }
  return true;
}

}  // namespace
}  // namespace nvtx
}  // namespace cctrace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t table) {
  using namespace cctrace;
  if (!table) return 0;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table(NVTX_ETID_CALLBACKS));
  if (!callbacks) return 0;
  // Success with nothing attached leaves NVTX's own no-ops in place, and this library loaded.
  if (!config().spool) return 1;
  return nvtx::attach(*callbacks, NVTX_CB_MODULE_CORE, nvtx::kCore) &&
         nvtx::attach(*callbacks, NVTX_CB_MODULE_CORE2, nvtx::kCore2);
}
