/* What a Python object says of the memory of an array. */
#ifndef TUTTI_PYTHON_ARRAYS_H_
#define TUTTI_PYTHON_ARRAYS_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <stdint.h>

/* Python's Py_buffer: in the stable ABI since 3.11, and 3.9 and 3.10 have the same fields in the same order. */
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char* format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void* internal;
} BufferView;

/* One array; start from zeros. */
typedef struct {
  int given; /* 0: there is none, and nothing else is set */
  int dtype; /* tuttiDataType_t */
  size_t count, itemBytes;
  void* data;
  int viewed; /* 1: `view` holds the object's memory in place until endArray */
  BufferView view;
} Array;

/* describe(object, writable, device): (address, count, dtype, bytes per item), or an exception.  Asked of whatever is
 * neither a plain numpy array nor a torch tensor on the host nor has the buffer protocol, and of what is wrong. */
void setDescribe(PyObject* describe);

/* 0 with an exception set: no array, not contiguous, not writable, of a dtype that Tutti lacks, or not on `device` (-1:
 * the host, else a CUDA device). */
int readArray(PyObject* object, int writable, int device, Array* array);
void endArray(Array* array);

/* 0, without an exception, if it is none of torch's tensors on the host, or its memory is not all that it says: with
 * gaps, of a dtype that Tutti lacks, to be negated. */
int readPlainTensor(PyObject* object, Array* array);

/* Append to `list` what keeps the array's memory: 0 with an exception set if there is no memory. */
int keepArray(PyObject* list, PyObject* object, const Array* array);

/* numpy_memory.c */
PyObject* numpyHandler(PyObject* self, PyObject* args);

#endif /* TUTTI_PYTHON_ARRAYS_H_ */
