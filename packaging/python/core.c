/* tutti._core: calls on arrays without ctypes' overhead.  On Python's stable ABI, so that one file serves 3.9 and
 * newer.
 *
 * It links no libtutti: setup() takes the addresses of the functions from ctypes, so both use one and the same library.
 * What it does not know itself (other libraries' arrays, bad arguments) it asks Python for; tutti/_calls.py does the
 * same without this module, and says the same of every call. */
#include "packaging/python/arrays.h"
#include "tutti/tutti.h"

typedef tuttiResult_t (*Function)(void);
typedef int (*WithOp)(const void*, void*, size_t, int, int, void*, void*); /* or with a root */
typedef int (*WithOpAndRoot)(const void*, void*, size_t, int, int, int, void*, void*);
typedef int (*Plain)(const void*, void*, size_t, int, void*, void*);
typedef int (*ToPeer)(const void*, size_t, int, int, void*, void*);
typedef int (*FromPeer)(void*, size_t, int, int, void*, void*);
typedef int (*Bare)(void*, void*);

enum { kCalls = tuttiCallRecv + 1 };
static void* functions[kCalls];
static PyObject*
    refuse; /* (kind, nRanks, send count, recv count, send dtype, recv dtype): raises; count -1: no array */

/* Keeps the arrays of calls that this thread's group has collected; NULL outside of groups. */
static __thread PyObject* collected;

/* One call as the library takes it. */
typedef struct {
  int kind, dtype, op, root;
  size_t count;
  const void* send;
  void* recv;
  void *comm, *stream;
} Call;

static int run(const Call* c) {
  void* f = functions[c->kind];
  switch (c->kind) {
    case tuttiCallAllReduce:
    case tuttiCallReduceScatter: return ((WithOp)f)(c->send, c->recv, c->count, c->dtype, c->op, c->comm, c->stream);
    case tuttiCallReduce:
      return ((WithOpAndRoot)f)(c->send, c->recv, c->count, c->dtype, c->op, c->root, c->comm, c->stream);
    case tuttiCallBroadcast:
    case tuttiCallGather:
    case tuttiCallScatter: return ((WithOp)f)(c->send, c->recv, c->count, c->dtype, c->root, c->comm, c->stream);
    case tuttiCallAllGather:
    case tuttiCallAllToAll: return ((Plain)f)(c->send, c->recv, c->count, c->dtype, c->comm, c->stream);
    case tuttiCallSend: return ((ToPeer)f)(c->send, c->count, c->dtype, c->root, c->comm, c->stream);
    case tuttiCallRecv: return ((FromPeer)f)(c->recv, c->count, c->dtype, c->root, c->comm, c->stream);
    default: return ((Bare)f)(c->comm, c->stream);
  }
}

static PyObject* runReleased(const Call* c) {
  int result = 0;
  Py_BEGIN_ALLOW_THREADS result = run(c);
  Py_END_ALLOW_THREADS return PyLong_FromLong(result);
}

/* Whether this rank has a send and a receive buffer in the call. */
static int hasSend(int kind, int isRoot) {
  return kind == tuttiCallBroadcast || kind == tuttiCallScatter ? isRoot : kind != tuttiCallRecv;
}
static int hasRecv(int kind, int isRoot) {
  return kind == tuttiCallReduce || kind == tuttiCallGather ? isRoot : kind != tuttiCallSend;
}

/* How many times the call's count a buffer has. */
static size_t sendBlocks(int kind, int n) {
  return kind == tuttiCallReduceScatter || kind == tuttiCallAllToAll || kind == tuttiCallScatter ? (size_t)n : 1;
}
static size_t recvBlocks(int kind, int n) {
  return kind == tuttiCallAllGather || kind == tuttiCallAllToAll || kind == tuttiCallGather ? (size_t)n : 1;
}

/* Count and addresses of the call; 0 with an exception set if the arrays do not fit it.  One that is missing lies in
 * the other (in place), which then is not the smaller one. */
static int fit(Call* c, int n, int rank, const Array* s, const Array* r) {
  const size_t sends = sendBlocks(c->kind, n), recvs = recvBlocks(c->kind, n);
  const int takes = hasSend(c->kind, rank == c->root), gives = hasRecv(c->kind, rank == c->root);
  const Array* known = s->given ? s : r;
  const size_t blocks = s->given ? sends : recvs;
  const size_t block = known->count / blocks;
  int good = s->given ? r->given || !gives || sends >= recvs : r->given && (!takes || recvs >= sends);
  good = good && block * blocks == known->count;
  if (s->given && r->given) good = good && s->dtype == r->dtype && r->count == block * recvs;
  if (!good) {
    Py_XDECREF(PyObject_CallFunction(refuse, "iinnii", c->kind, n, s->given ? (Py_ssize_t)s->count : (Py_ssize_t)-1,
                                     r->given ? (Py_ssize_t)r->count : (Py_ssize_t)-1, s->dtype, r->dtype));
    return 0;
  }
  const size_t offset = sends == recvs ? 0 : block * known->itemBytes * (size_t)rank;
  c->count = block;
  c->dtype = known->dtype;
  c->send = s->given ? s->data : takes ? (const char*)r->data + offset : NULL;
  c->recv = r->given ? r->data : gives ? (char*)s->data + offset : NULL;
  return 1;
}

static long intAt(PyObject* args, Py_ssize_t i) { return PyLong_AsLong(PyTuple_GetItem(args, i)); }
static void* pointerAt(PyObject* args, Py_ssize_t i) { return PyLong_AsVoidPtr(PyTuple_GetItem(args, i)); }

static int readKind(PyObject* args, Py_ssize_t nArgs, Call* c) {
  if (PyTuple_Size(args) != nArgs) return PyErr_Format(PyExc_TypeError, "takes %zd arguments", nArgs), 0;
  c->kind = (int)intAt(args, 0);
  c->comm = pointerAt(args, 1);
  if (PyErr_Occurred()) return 0;
  if (c->kind >= 0 && c->kind < kCalls && functions[c->kind] != NULL) return 1;
  return PyErr_Format(PyExc_ValueError, "%d is not a kind of call, or setup was not called", c->kind), 0;
}

/* collective(kind, comm, stream, nRanks, rank, device, send, recv, op, root): the result code, or an exception if an
 * array is not one or does not fit.  root is the peer of send and recv. */
static PyObject* collective(PyObject* self, PyObject* args) {
  (void)self;
  Call c = {0};
  if (!readKind(args, 10, &c)) return NULL;
  c.stream = pointerAt(args, 2);
  const int nRanks = (int)intAt(args, 3), rank = (int)intAt(args, 4), device = (int)intAt(args, 5);
  PyObject *send = PyTuple_GetItem(args, 6), *recv = PyTuple_GetItem(args, 7);
  c.op = (int)intAt(args, 8);
  c.root = (int)intAt(args, 9);
  if (PyErr_Occurred()) return NULL;
  const int takes = send != Py_None && hasSend(c.kind, rank == c.root);
  const int gives = recv != Py_None && hasRecv(c.kind, rank == c.root);
  const int inPlace = recv == Py_None && hasRecv(c.kind, rank == c.root);
  PyObject* result = NULL;
  Array s = {0}, r = {0};
  if ((!takes || readArray(send, inPlace, device, &s)) && (!gives || readArray(recv, 1, device, &r)) &&
      fit(&c, nRanks, rank, &s, &r) &&
      (collected == NULL || (keepArray(collected, send, &s) && keepArray(collected, recv, &r)))) {
    result = runReleased(&c);
  }
  endArray(&s);
  endArray(&r);
  return result;
}

/* call(kind, comm, stream, send address, recv address, count, dtype, op, root): the result code; checks nothing. */
static PyObject* call(PyObject* self, PyObject* args) {
  (void)self;
  Call c = {0};
  if (!readKind(args, 9, &c)) return NULL;
  c.stream = pointerAt(args, 2);
  c.send = pointerAt(args, 3);
  c.recv = pointerAt(args, 4);
  c.count = PyLong_AsSize_t(PyTuple_GetItem(args, 5));
  c.dtype = (int)intAt(args, 6);
  c.op = (int)intAt(args, 7);
  c.root = (int)intAt(args, 8);
  return PyErr_Occurred() ? NULL : runReleased(&c);
}

static PyObject* described(const Array* a) {
  return Py_BuildValue("Knin", (unsigned long long)(uintptr_t)a->data, (Py_ssize_t)a->count, a->dtype,
                       (Py_ssize_t)a->itemBytes);
}

/* plain(tensor): as array() of one of torch's on the host; None if it has to be copied, or is refused. */
static PyObject* plain(PyObject* self, PyObject* object) {
  (void)self;
  Array a = {0};
  if (!readPlainTensor(object, &a)) Py_RETURN_NONE;
  return described(&a);
}

/* array(object, writable, device): (address, count, dtype, bytes per item). */
static PyObject* array(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* object = NULL;
  int writable = 0, device = -1;
  if (!PyArg_ParseTuple(args, "Oii", &object, &writable, &device)) return NULL;
  Array a = {0};
  if (!readArray(object, writable, device, &a)) return NULL;
  PyObject* result = described(&a);
  endArray(&a);
  return result;
}

/* collect(list or None): the arrays of this thread's calls are kept in the list from now on. */
static PyObject* collect(PyObject* self, PyObject* list) {
  (void)self;
  if (list != Py_None && !PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "takes a list or None"), NULL;
  PyObject* before = collected;
  collected = list == Py_None ? NULL : list;
  Py_XINCREF(collected);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

/* setup(addresses of the functions by kind, describe, refuse): once, before anything else. */
static PyObject* setup(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *addresses = NULL, *describe = NULL;
  if (!PyArg_ParseTuple(args, "OOO", &addresses, &describe, &refuse)) return NULL;
  if (!PyTuple_Check(addresses) || PyTuple_Size(addresses) != kCalls)
    return PyErr_Format(PyExc_ValueError, "takes the addresses of %d functions", kCalls);
  for (int i = 0; i < kCalls; ++i) functions[i] = pointerAt(addresses, i);
  Py_INCREF(refuse);
  setDescribe(describe);
  return PyErr_Occurred() ? NULL : Py_BuildValue("");
}

static PyMethodDef methods[] = {{"setup", setup, METH_VARARGS, NULL},
                                {"collective", collective, METH_VARARGS, NULL},
                                {"call", call, METH_VARARGS, NULL},
                                {"array", array, METH_VARARGS, NULL},
                                {"plain", plain, METH_O, NULL},
                                {"collect", collect, METH_O, NULL},
                                {"numpy_handler", numpyHandler, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tutti._core", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
