/* An allocator for numpy's arrays (NEP 49): large ones lie in tuttiMemAlloc's memory, small ones where malloc puts
 * them.
 *
 * numpy keeps the allocator with each array and gives it no sizes when it grows one, so a header in front of every
 * block says what it is. */
#include <stdlib.h>
#include <string.h>

#include "packaging/python/arrays.h"

/* numpy's PyDataMem_Handler, version 1. */
typedef struct {
  void* context;
  void* (*malloc)(void* context, size_t bytes);
  void* (*calloc)(void* context, size_t count, size_t bytes);
  void* (*realloc)(void* context, void* block, size_t bytes);
  void (*free)(void* context, void* block, size_t bytes);
} Allocator;
typedef struct {
  char name[127];
  uint8_t version;
  Allocator allocator;
} Handler;

/* A cache line, so that blocks are aligned as well as malloc's. */
typedef struct {
  size_t bytes;
  int shared;
  char rest[64 - sizeof(size_t) - sizeof(int)];
} Header;

static int (*sharedAlloc)(void** block, size_t bytes);
static int (*sharedFree)(void* block);
static size_t least; /* bytes of a block that is shared */

static void* take(size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(Header)) return NULL;
  Header* header = NULL;
  void* memory = NULL;
  const int shared = bytes >= least && sharedAlloc(&memory, bytes + sizeof(Header)) == 0;
  header = shared ? memory
                  : aligned_alloc(sizeof(Header), (bytes + 2 * sizeof(Header) - 1) / sizeof(Header) * sizeof(Header));
  if (header == NULL) return NULL;
  header->bytes = bytes;
  header->shared = shared;
  return header + 1;
}

static void give(void* block) {
  if (block == NULL) return;
  Header* header = (Header*)block - 1;
  if (header->shared) {
    (void)sharedFree(header);
  } else {
    free(header);
  }
}

static void* doMalloc(void* context, size_t bytes) { return (void)context, take(bytes); }
static void* doCalloc(void* context, size_t count, size_t bytes) {
  (void)context;
  if (bytes != 0 && count > SIZE_MAX / bytes) return NULL;
  void* block = take(count * bytes);
  if (block != NULL && !((Header*)block - 1)->shared) memset(block, 0, count * bytes); /* shared memory is zeroed */
  return block;
}
static void* doRealloc(void* context, void* block, size_t bytes) {
  (void)context;
  void* larger = take(bytes);
  if (larger == NULL || block == NULL) return larger;
  const size_t before = ((Header*)block - 1)->bytes;
  memcpy(larger, block, before < bytes ? before : bytes);
  give(block);
  return larger;
}
static void doFree(void* context, void* block, size_t bytes) { (void)context, (void)bytes, give(block); }

static Handler handler = {"tutti", 1, {NULL, doMalloc, doCalloc, doRealloc, doFree}};

/* numpy_handler(address of tuttiMemAlloc, address of tuttiMemFree, bytes from which on blocks are shared): a capsule
 * for PyDataMem_SetHandler. */
PyObject* numpyHandler(PyObject* self, PyObject* args) {
  (void)self;
  unsigned long long alloc = 0, release = 0, bytes = 0;
  if (!PyArg_ParseTuple(args, "KKK", &alloc, &release, &bytes)) return NULL;
  sharedAlloc = (int (*)(void**, size_t))(uintptr_t)alloc;
  sharedFree = (int (*)(void*))(uintptr_t)release;
  least = (size_t)bytes;
  return PyCapsule_New(&handler, "mem_handler", NULL);
}
