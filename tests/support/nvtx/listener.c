/* A tool that NVTX loads (NVTX_INJECTION64_PATH): prints the ranges that threads open and close, one line each. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

static int onPush(const char* name) {
  fprintf(stderr, "range begins: %s\n", name);
  return 0;
}

static int onPop(void) {
  fprintf(stderr, "range ends\n");
  return 0;
}

static void put(NvtxFunctionTable table, unsigned size, unsigned id, const void* function, size_t bytes) {
  if (id < size) memcpy(table[id], function, bytes);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getExportTable) {
  const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)getExportTable(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  int (*const push)(const char*) = onPush;
  int (*const pop)(void) = onPop;
  if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
  put(table, size, NVTX_CBID_CORE_RangePushA, &push, sizeof push);
  put(table, size, NVTX_CBID_CORE_RangePop, &pop, sizeof pop);
  return 1;
}
