#include "packaging/python/arrays.h"

#include <string.h>

#include "tutti/tutti.h"

/* In every Python 3, but declared for the stable ABI only from 3.11 on. */
int PyObject_GetBuffer(PyObject* object, void* view, int flags);
void PyBuffer_Release(void* view);
enum { kBufferWritable = 1, kBufferFormat = 4, kBufferContiguous = 0x38 }; /* PyBUF_*; C-contiguous with shape */

/* numpy's PyArrayInterface, version 2: what __array_struct__ points to. */
typedef struct {
  int two, nd;
  char typekind;
  int itemsize, flags;
  Py_ssize_t *shape, *strides;
  void* data;
  PyObject* descr;
} ArrayStruct;
enum { kContiguous = 1, kNativeOrder = 0x200, kWriteable = 0x400 };

static PyObject* describe;

/* Types seen before, and how their objects are read. */
typedef enum { kAsk = 0, kNumpy, kTorch, kBuffer } Way;
enum { kMostTypes = 16 };
static struct {
  PyTypeObject* type;
  Way way;
} seen[kMostTypes];
static int nSeen;

static PyObject *arrayStruct, *dataPtr, *numel, *isContiguous, *isCpu, *isNeg, *dtypeName;
static struct {
  PyObject* dtype; /* torch.float32, ...: there is one object of each */
  int code;
} torchTypes[kMostTypes];
static int nTorchTypes;

void setDescribe(PyObject* function) {
  Py_XINCREF(function);
  Py_XDECREF(describe);
  describe = function;
  arrayStruct = PyUnicode_InternFromString("__array_struct__");
  dataPtr = PyUnicode_InternFromString("data_ptr");
  numel = PyUnicode_InternFromString("numel");
  isContiguous = PyUnicode_InternFromString("is_contiguous");
  isCpu = PyUnicode_InternFromString("is_cpu");
  isNeg = PyUnicode_InternFromString("is_neg");
  dtypeName = PyUnicode_InternFromString("dtype");
}

static Way wayOf(PyTypeObject* type) {
  for (int i = 0; i < nSeen; ++i) {
    if (seen[i].type == type) return seen[i].way;
  }
  Way way = kAsk;
  if (PyObject_HasAttr((PyObject*)type, arrayStruct)) {
    way = kNumpy;
  } else if (PyObject_HasAttr((PyObject*)type, isCpu) && PyObject_HasAttr((PyObject*)type, dataPtr)) {
    way = kTorch;
  } else if (!PyObject_HasAttrString((PyObject*)type, "__array_interface__") &&
             !PyObject_HasAttrString((PyObject*)type, "__cuda_array_interface__") &&
             !PyObject_HasAttrString((PyObject*)type, "__dlpack__")) {
    way = kBuffer;
  }
  if (nSeen < kMostTypes) {
    Py_INCREF(type);
    seen[nSeen].type = type;
    seen[nSeen++].way = way;
  }
  return way;
}

/* -1: Tutti has none such. */
static int dtypeOf(char kind, Py_ssize_t bytes) {
  switch (kind) {
    case 'f': return bytes == 4 ? tuttiFloat32 : bytes == 8 ? tuttiFloat64 : bytes == 2 ? tuttiFloat16 : -1;
    case 'i':
      return bytes == 4 ? tuttiInt32 : bytes == 8 ? tuttiInt64 : bytes == 1 ? tuttiInt8 : bytes == 2 ? tuttiInt16 : -1;
    case 'u':
      return bytes == 1   ? tuttiUint8
             : bytes == 4 ? tuttiUint32
             : bytes == 8 ? tuttiUint64
             : bytes == 2 ? tuttiUint16
                          : -1;
    case 'b': return bytes == 1 ? tuttiBool : -1;
    default: return -1;
  }
}

/* The kind of a format of the struct module with one native item; 'V' if it is something else. */
static char kindOfFormat(const char* format) {
  if (format == NULL) return 'u';
  if (*format == '@' || *format == '=' || *format == '<')
    ++format; /* the machines that Tutti knows are little-endian */
  if (format[0] == '\0' || format[1] != '\0') return 'V';
  if (strchr("efd", format[0])) return 'f';
  if (strchr("bhilqn", format[0])) return 'i';
  if (strchr("BcHILQN", format[0])) return 'u';
  return format[0] == '?' ? 'b' : 'V';
}

static int readNumpy(PyObject* object, int writable, Array* array) {
  PyObject* capsule = PyObject_GetAttr(object, arrayStruct);
  if (capsule == NULL) return PyErr_Clear(), 0;
  const ArrayStruct* a = PyCapsule_GetPointer(capsule, NULL);
  if (a == NULL) PyErr_Clear();
  const int needed = kContiguous | (a != NULL && a->itemsize > 1 ? kNativeOrder : 0) | (writable ? kWriteable : 0);
  const int good = a != NULL && a->two == 2 && (a->flags & needed) == needed;
  array->dtype = good ? dtypeOf(a->typekind, a->itemsize) : -1;
  if (array->dtype >= 0) {
    array->data = a->data;
    array->itemBytes = (size_t)a->itemsize;
    array->count = 1;
    for (int i = 0; i < a->nd; ++i) array->count *= (size_t)a->shape[i];
  }
  Py_DECREF(capsule);
  return array->dtype >= 0;
}

static int isTrue(PyObject* taken) {
  const int result = taken == Py_True;
  Py_XDECREF(taken);
  return result;
}

/* The code of a torch.dtype; asks Python once for each, by describe(dtype, 0, None). */
static int torchType(PyObject* dtype, size_t* itemBytes) {
  static const unsigned char kBytes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1};
  int code = -1;
  for (int i = 0; i < nTorchTypes && code < 0; ++i) {
    if (torchTypes[i].dtype == dtype) code = torchTypes[i].code;
  }
  if (code < 0 && nTorchTypes < kMostTypes) {
    PyObject* told = PyObject_CallFunction(describe, "OiO", dtype, 0, Py_None);
    if (told == NULL) return PyErr_Clear(), -1;
    code = (int)PyLong_AsLong(told);
    Py_DECREF(told);
    if (code < 0) return -1;
    Py_INCREF(dtype);
    torchTypes[nTorchTypes].dtype = dtype;
    torchTypes[nTorchTypes++].code = code;
  }
  if (code >= 0) *itemBytes = kBytes[code];
  return code;
}

static int readTorch(PyObject* object, Array* array) {
  if (!isTrue(PyObject_GetAttr(object, isCpu)) || !isTrue(PyObject_CallMethodObjArgs(object, isContiguous, NULL)) ||
      isTrue(PyObject_CallMethodObjArgs(object, isNeg, NULL)))
    return PyErr_Clear(), 0;
  PyObject* dtype = PyObject_GetAttr(object, dtypeName);
  array->dtype = dtype == NULL ? -1 : torchType(dtype, &array->itemBytes);
  Py_XDECREF(dtype);
  if (array->dtype < 0) return PyErr_Clear(), 0;
  PyObject* address = PyObject_CallMethodObjArgs(object, dataPtr, NULL);
  PyObject* count = PyObject_CallMethodObjArgs(object, numel, NULL);
  if (address != NULL && count != NULL) {
    array->data = PyLong_AsVoidPtr(address);
    array->count = PyLong_AsSize_t(count);
  }
  Py_XDECREF(address);
  Py_XDECREF(count);
  return PyErr_Occurred() ? (PyErr_Clear(), 0) : 1;
}

static int readBuffer(PyObject* object, int writable, Array* array) {
  const int flags = kBufferContiguous | kBufferFormat | (writable ? kBufferWritable : 0);
  if (PyObject_GetBuffer(object, &array->view, flags) != 0) return PyErr_Clear(), 0;
  array->dtype = dtypeOf(kindOfFormat(array->view.format), array->view.itemsize);
  if (array->dtype < 0) return PyBuffer_Release(&array->view), 0;
  array->viewed = 1;
  array->data = array->view.buf;
  array->itemBytes = (size_t)array->view.itemsize;
  array->count = (size_t)array->view.len / array->itemBytes;
  return 1;
}

static int readAsked(PyObject* object, int writable, int device, Array* array) {
  PyObject* told = PyObject_CallFunction(describe, "Oii", object, writable, device);
  if (told == NULL) return 0;
  unsigned long long address = 0;
  Py_ssize_t count = 0, itemBytes = 0;
  const int good = PyArg_ParseTuple(told, "Knin", &address, &count, &array->dtype, &itemBytes);
  Py_DECREF(told);
  if (!good) return 0;
  array->data = (void*)(uintptr_t)address;
  array->count = (size_t)count;
  array->itemBytes = (size_t)itemBytes;
  return 1;
}

int readPlainTensor(PyObject* object, Array* array) {
  return wayOf(Py_TYPE(object)) == kTorch && readTorch(object, array);
}

int readArray(PyObject* object, int writable, int device, Array* array) {
  int done = 0;
  if (device < 0) {
    const Way way = wayOf(Py_TYPE(object));
    done = way == kNumpy    ? readNumpy(object, writable, array)
           : way == kTorch  ? readTorch(object, array)
           : way == kBuffer ? readBuffer(object, writable, array)
                            : 0;
  }
  if (!done && !readAsked(object, writable, device, array)) return 0;
  array->given = 1;
  return 1;
}

void endArray(Array* array) {
  if (array->viewed) PyBuffer_Release(&array->view);
}

int keepArray(PyObject* list, PyObject* object, const Array* array) {
  if (!array->given) return 1;
  if (!array->viewed) return PyList_Append(list, object) == 0;
  PyObject* view = PyMemoryView_FromObject(object);
  if (view == NULL) return 0;
  const int result = PyList_Append(list, view);
  Py_DECREF(view);
  return result == 0;
}
