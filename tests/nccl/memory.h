/* Memory and a stream that a client's calls work on: the host's, or those of the thread's CUDA device, which come from
 * the driver alone, so that they can be the ones of tests/fake_cuda too.  Errors end the program. */
#ifndef TUTTI_TESTS_NCCL_MEMORY_H_
#define TUTTI_TESTS_NCCL_MEMORY_H_

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int onDevice;
  void* stream; /* NULL on host memory: calls have completed when they return */
  int (*alloc)(uint64_t* address, size_t bytes);
  int (*release)(uint64_t address);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream);
  int (*wait)(void* stream);
} Memory;

static inline void mustBeZero(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "%s gave %d\n", what, error);
  exit(1);
}

/* A function of the driver, in the form that it had in `version` (of CUDA, times 1000). */
static inline void findInDriver(void* library, const char* name, int version, void* function) {
  typedef int (*Find)(const char*, void**, int, uint64_t, void*);
  Find find = NULL;
  void* const symbol = dlsym(library, "cuGetProcAddress_v2");
  memcpy(&find, &symbol, sizeof find);
  mustBeZero(find == NULL || find(name, (void**)function, version, 0, NULL) != 0, name);
}

/* onDevice: a stream on CUDA device `ordinal`, whose primary context becomes current.  Otherwise the host. */
static inline Memory openMemory(int onDevice, int ordinal) {
  Memory m = {0};
  void *library, *context = NULL;
  int device = 0;
  int (*init)(unsigned), (*get)(int*, int), (*retain)(void**, int), (*push)(void*), (*create)(void**, unsigned);
  m.onDevice = onDevice;
  if (!onDevice) return m;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  mustBeZero(library == NULL, "dlopen(libcuda.so.1)");
  findInDriver(library, "cuInit", 2000, &init);
  findInDriver(library, "cuDeviceGet", 2000, &get);
  findInDriver(library, "cuDevicePrimaryCtxRetain", 7000, &retain);
  findInDriver(library, "cuCtxPushCurrent", 4000, &push);
  findInDriver(library, "cuStreamCreate", 2000, &create);
  findInDriver(library, "cuMemAlloc", 3020, &m.alloc);
  findInDriver(library, "cuMemFree", 3020, &m.release);
  findInDriver(library, "cuMemcpyAsync", 4000, &m.copy);
  findInDriver(library, "cuStreamSynchronize", 2000, &m.wait);
  mustBeZero(init(0), "cuInit");
  mustBeZero(get(&device, ordinal), "cuDeviceGet");
  mustBeZero(retain(&context, device), "cuDevicePrimaryCtxRetain");
  mustBeZero(push(context), "cuCtxPushCurrent");
  mustBeZero(create(&m.stream, 1 /* CU_STREAM_NON_BLOCKING */), "cuStreamCreate");
  return m;
}

static inline void* allocateBytes(const Memory* m, size_t bytes) {
  uint64_t address = 0;
  if (m->onDevice) {
    mustBeZero(m->alloc(&address, bytes), "cuMemAlloc");
  } else {
    address = (uint64_t)(uintptr_t)malloc(bytes);
  }
  mustBeZero(address == 0, "allocation");
  return (void*)(uintptr_t)address;
}
static inline void releaseBytes(const Memory* m, void* address) {
  if (m->onDevice) {
    mustBeZero(m->release((uint64_t)(uintptr_t)address), "cuMemFree");
  } else {
    free(address);
  }
}
/* To or from host memory, after all that the stream has to do; complete on return. */
static inline void copyBytes(const Memory* m, void* to, const void* from, size_t bytes) {
  if (!m->onDevice) {
    memcpy(to, from, bytes);
    return;
  }
  mustBeZero(m->copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, m->stream), "cuMemcpyAsync");
  mustBeZero(m->wait(m->stream), "cuStreamSynchronize");
}

#endif
