/* Preloaded into a program for one rank per device: makes it see ONE_DEVICE_COUNT CUDA devices, each of which is one of
 * those that there are (device d is d modulo their number).  nccl-tests, llm.c and others choose the device by the
 * rank's number and stop where there are too few.  It works on programs that link CUDA's run time as a shared library,
 * which is what nccl-tests does by default; needs no header of CUDA's.
 *
 *   - cc -shared -fPIC one_device.c -o one_device.so -ldl
 *   - ONE_DEVICE_COUNT=4 LD_PRELOAD=./one_device.so program */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Error; /* cudaError_t */

static __thread int shownDevice; /* the device that this thread believes to be on */

/* The run time's own function of that name, into *function. */
static void next(const char* name, void* function) {
  void* const symbol = dlsym(RTLD_NEXT, name);
  if (symbol == NULL) {
    fprintf(stderr, "one_device: the program has no %s in a shared library\n", name);
    exit(1);
  }
  memcpy(function, &symbol, sizeof symbol);
}

static Error countDevices(int* count) {
  Error (*real)(int*);
  next("cudaGetDeviceCount", &real);
  return real(count);
}

static int realDevice(int shown) {
  int count = 0;
  return countDevices(&count) == 0 && count > 0 && shown >= 0 ? shown % count : shown;
}

Error cudaGetDeviceCount(int* count) {
  const char* text = getenv("ONE_DEVICE_COUNT");
  const int wanted = text == NULL ? 1 : atoi(text);
  const Error error = countDevices(count);
  if (error == 0 && *count > 0 && *count < wanted) *count = wanted;
  return error;
}

Error cudaSetDevice(int device) {
  Error (*real)(int);
  next("cudaSetDevice", &real);
  const Error error = real(realDevice(device));
  if (error == 0) shownDevice = device;
  return error;
}

Error cudaGetDevice(int* device) {
  int current = 0;
  Error (*real)(int*);
  next("cudaGetDevice", &real);
  const Error error = real(&current);
  if (error == 0) *device = realDevice(shownDevice) == current ? shownDevice : current;
  return error;
}

Error cudaDeviceGetAttribute(int* value, int attribute, int device) {
  Error (*real)(int*, int, int);
  next("cudaDeviceGetAttribute", &real);
  return real(value, attribute, realDevice(device));
}

Error cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  Error (*real)(char*, int, int);
  next("cudaDeviceGetPCIBusId", &real);
  return real(text, bytes, realDevice(device));
}

/* CUDA 12 calls it by the second name, earlier and later ones by the first. */
Error cudaGetDeviceProperties(void* properties, int device) {
  Error (*real)(void*, int);
  next("cudaGetDeviceProperties", &real);
  return real(properties, realDevice(device));
}
Error cudaGetDeviceProperties_v2(void* properties, int device) {
  Error (*real)(void*, int);
  next("cudaGetDeviceProperties_v2", &real);
  return real(properties, realDevice(device));
}
