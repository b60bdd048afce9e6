// The part of the CUDA runtime that torch needs for memory, copies, streams and events, on the driver of
// tests/fake_cuda.
//
// Built with the headers of torch's own wheel and loaded in its runtime's place (test_cuda.py).  Torch's kernels do not
// run: their launches fail, so tests fill and compare tensors on the host.  What torch asks for and is not here fails
// with cudaErrorNotSupported; test_cuda.py adds those functions to the library.
#define _GNU_SOURCE
#define cuGetProcAddress_v2 cuGetProcAddress_v2_of_the_header
#include <cuda.h>
#undef cuGetProcAddress_v2
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { kMostDevices = 64 };

static __thread int device;         // the thread's, as cudaSetDevice left it
static __thread CUcontext context;  // that it has made current
static __thread cudaError_t lastError;

// A symbol of the library DRIVER_PATH.
static void* symbol(const char* name) {
  static void* driver;
  if (driver == NULL) driver = dlopen(DRIVER_PATH, RTLD_NOW);
  void* found = driver == NULL ? NULL : dlsym(driver, name);
  if (found == NULL) fprintf(stderr, "cuda_runtime.c: " DRIVER_PATH " has no %s: %s\n", name, dlerror()), abort();
  return found;
}

// Torch and Tutti both open "libcuda.so.1", which is this library by another name, and ask it for this.
EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, void* told) {
  static int (*look)(const char*, void**, int, uint64_t, void*);
  if (look == NULL) *(void**)&look = symbol("cuGetProcAddress_v2");
  return look(name, function, version, flags, told);
}
static void* find(const char* name, int version) {
  void* found = NULL;
  cuGetProcAddress_v2(name, &found, version, 0, NULL);
  return found;
}

// DRIVER(cuMemAlloc, 3020): the driver's function, looked up once.
#define DRIVER(name, version)                                                        \
  ({                                                                                 \
    static __typeof__(name)* function_;                                              \
    if (function_ == NULL) *(void**)&function_ = find(#name, version);               \
    if (function_ == NULL) fprintf(stderr, "the driver lacks " #name "\n"), abort(); \
    function_;                                                                       \
  })

static cudaError_t note(int error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) lastError = (cudaError_t)error;
  return (cudaError_t)error;
}

static CUcontext primary[kMostDevices];

static int enter(void) {
  if (context != NULL && context == primary[device]) return 0;
  int error = DRIVER(cuInit, 2000)(0);
  if (error == 0 && primary[device] == NULL) error = DRIVER(cuDevicePrimaryCtxRetain, 7000)(&primary[device], device);
  if (error != 0) return error;
  CUcontext before;
  if (context != NULL) DRIVER(cuCtxPopCurrent, 4000)(&before);
  context = primary[device];
  return DRIVER(cuCtxPushCurrent, 4000)(context);
}

// IN_CONTEXT(call): what most functions do.
#define IN_CONTEXT(call)                        \
  do {                                          \
    int error_ = enter();                       \
    return note(error_ ? error_ : (int)(call)); \
  } while (0)

// ---- Devices

EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  int error = DRIVER(cuInit, 2000)(0);
  return note(error ? error : (int)DRIVER(cuDeviceGetCount, 2000)(count));
}
EXPORT cudaError_t cudaGetDevice(int* ordinal) { return *ordinal = device, cudaSuccess; }
EXPORT cudaError_t cudaSetDevice(int ordinal) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return lastError;
  if (ordinal < 0 || ordinal >= count) return note(cudaErrorInvalidDevice);
  device = ordinal;
  return note(enter());
}
EXPORT cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int ordinal) {
  IN_CONTEXT(DRIVER(cuDeviceGetAttribute, 2000)(value, (CUdevice_attribute)attribute, ordinal));
}
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int ordinal) {
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "tests/fake_cuda %d", ordinal);
  properties->totalGlobalMem = (size_t)16 << 30;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->unifiedAddressing = 1;
  properties->concurrentKernels = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int ordinal) {
  IN_CONTEXT(DRIVER(cuDeviceGetPCIBusId, 4010)(text, bytes, ordinal));
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  IN_CONTEXT(DRIVER(cuDeviceCanAccessPeer, 4000)(can, ordinal, peer));
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  IN_CONTEXT(DRIVER(cuCtxGetStreamPriorityRange, 5050)(least, greatest));
}
EXPORT cudaError_t cudaDeviceSynchronize(void) { IN_CONTEXT(DRIVER(cuCtxSynchronize, 2000)()); }

// ---- Errors, whose numbers are the driver's

EXPORT cudaError_t cudaGetLastError(void) {
  const cudaError_t error = lastError;
  lastError = cudaSuccess;
  return error;
}
EXPORT cudaError_t cudaPeekAtLastError(void) { return lastError; }
EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const char* text = NULL;
  DRIVER(cuGetErrorString, 6000)((CUresult)error, &text);
  return text ? text : "an error of the CUDA runtime";
}
EXPORT const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

// ---- Memory

EXPORT cudaError_t cudaMalloc(void** memory, size_t bytes) {
  IN_CONTEXT(DRIVER(cuMemAlloc, 3020)((CUdeviceptr*)memory, bytes));
}
EXPORT cudaError_t cudaFree(void* memory) {
  if (memory == NULL) return note(enter());
  IN_CONTEXT(DRIVER(cuMemFree, 3020)((CUdeviceptr)memory));
}
EXPORT cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  IN_CONTEXT(DRIVER(cuMemHostAlloc, 2020)(memory, bytes, flags & CU_MEMHOSTALLOC_PORTABLE));
}
EXPORT cudaError_t cudaMallocHost(void** memory, size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }
EXPORT cudaError_t cudaFreeHost(void* memory) { IN_CONTEXT(DRIVER(cuMemFreeHost, 2000)(memory)); }
EXPORT cudaError_t cudaMemGetInfo(size_t* unused, size_t* whole) {
  *whole = (size_t)16 << 30;
  *unused = *whole / 2;
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  (void)kind;
  IN_CONTEXT(DRIVER(cuMemcpyAsync, 4000)((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
}
EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
  return error != cudaSuccess ? error : cudaStreamSynchronize(NULL);
}
EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int toDevice, const void* from, int fromDevice, size_t bytes,
                                       cudaStream_t stream) {
  (void)toDevice, (void)fromDevice;
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
EXPORT cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  IN_CONTEXT(DRIVER(cuMemsetD8Async, 3020)((CUdeviceptr)memory, (unsigned char)value, bytes, stream));
}
EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* address) {
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  unsigned type = 0;
  int ordinal = 0;
  void* answers[] = {&type, &ordinal};
  int error = enter();
  if (error == 0) error = DRIVER(cuPointerGetAttributes, 7000)(2, asked, answers, (CUdeviceptr)address);
  if (error != 0) return note(error);
  memset(attributes, 0, sizeof *attributes);
  attributes->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                     : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeUnregistered;
  attributes->device = ordinal;
  attributes->devicePointer = attributes->hostPointer = (void*)address;
  return cudaSuccess;
}

// ---- Streams and events

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  IN_CONTEXT(DRIVER(cuStreamCreateWithPriority, 5050)(stream, flags, priority));
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) { IN_CONTEXT(DRIVER(cuStreamDestroy, 4000)(stream)); }
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) { IN_CONTEXT(DRIVER(cuStreamSynchronize, 2000)(stream)); }
EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) { IN_CONTEXT(DRIVER(cuStreamQuery, 2000)(stream)); }
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  (void)stream;
  return *priority = 0, cudaSuccess;
}
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  IN_CONTEXT(DRIVER(cuStreamWaitEvent, 3020)(stream, event, flags));
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  IN_CONTEXT(DRIVER(cuStreamIsCapturing, 10000)(stream, (CUstreamCaptureStatus*)status));
}
EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  IN_CONTEXT(DRIVER(cuStreamBeginCapture, 10010)(stream, (CUstreamCaptureMode)mode));
}
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  IN_CONTEXT(DRIVER(cuStreamEndCapture, 10000)(stream, graph));
}
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  IN_CONTEXT(DRIVER(cuGraphInstantiateWithFlags, 11040)(made, graph, flags));
}
EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  IN_CONTEXT(DRIVER(cuGraphLaunch, 10000)(graph, stream));
}
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { IN_CONTEXT(DRIVER(cuGraphExecDestroy, 10000)(graph)); }
EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) { IN_CONTEXT(DRIVER(cuGraphDestroy, 10000)(graph)); }
EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  IN_CONTEXT(DRIVER(cuThreadExchangeStreamCaptureMode, 10010)((CUstreamCaptureMode*)mode));
}
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  IN_CONTEXT(DRIVER(cuLaunchHostFunc, 10000)(stream, function, data));
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  IN_CONTEXT(DRIVER(cuEventCreate, 2000)(event, flags & cudaEventDisableTiming));
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  IN_CONTEXT(DRIVER(cuEventRecord, 2000)(event, stream));
}
EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  (void)flags;
  return cudaEventRecord(event, stream);
}
EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) { IN_CONTEXT(DRIVER(cuEventQuery, 2000)(event)); }
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) { IN_CONTEXT(DRIVER(cuEventSynchronize, 2000)(event)); }
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) { IN_CONTEXT(DRIVER(cuEventDestroy, 4000)(event)); }

// ---- The driver's functions for torch, and torch's kernels, which do not run

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  *flags = 0;
  *active = primary[ordinal] != NULL;
  return CUDA_SUCCESS;
}
EXPORT const char* fakeCudaComplaints(void) {
  const char* (*ask)(void);
  *(void**)&ask = symbol("fakeCudaComplaints");
  return ask();
}
static int notThere(void) { return CUDA_ERROR_NOT_SUPPORTED; }
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult* told) {
  static const int versions[] = {2000, 2020,  3020,  4000,  4010,  5050,  6000,  7000,  9000,
                                 9020, 10000, 10010, 10020, 11000, 11020, 11040, 11070, 12000};
  (void)version, (void)flags;
  *function = NULL;
  for (size_t at = 0; at < sizeof versions / sizeof *versions && *function == NULL; ++at)
    *function = find(name, versions[at]);
  if (*function == NULL) *(int (**)(void))function = notThere;
  if (told != NULL) *told = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
EXPORT void** __cudaRegisterFatBinary(void* image) {
  static void* none;
  (void)image;
  return &none;
}
EXPORT void __cudaRegisterFatBinaryEnd(void** module) { (void)module; }
EXPORT void __cudaUnregisterFatBinary(void** module) { (void)module; }
EXPORT void __cudaRegisterFunction(void) {}
EXPORT void __cudaRegisterVar(void) {}
