/* Loaded in front of a program: a machine without libpmix. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

__attribute__((visibility("default"))) void* dlopen(const char* name, int flags) {
  if (name != NULL && strstr(name, "libpmix") != NULL) return NULL;
  void* (*next)(const char*, int);
  *(void**)&next = dlsym(RTLD_NEXT, "dlopen");
  return next(name, flags);
}
