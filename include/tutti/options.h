/* Values of fields of tuttiConfig_t. */
#ifndef TUTTI_OPTIONS_H_
#define TUTTI_OPTIONS_H_

/* Where a communicator's ranks compute. */
typedef enum {
  TUTTI_DEVICE_AUTO = 0, /* the variable TUTTI_DEVICE; HOST if it is unset */
  TUTTI_DEVICE_HOST = 1,
  TUTTI_DEVICE_CUDA = 2
} tuttiDevice_t;

/* How threads wait for other ranks. */
typedef enum {
  TUTTI_WAIT_AUTO = 0,  /* awake for some milliseconds, then asleep; ranks that share cores yield instead of spin */
  TUTTI_WAIT_SPIN = 1,  /* never give the core away */
  TUTTI_WAIT_YIELD = 2, /* stay awake and yield the core to other threads */
  TUTTI_WAIT_BLOCK = 3  /* sleep at once, which frees the core */
} tuttiWaitMode_t;

/* The number format in which sums of floating-point numbers travel between hosts.  Inside a host they are exact.
 * It applies to sum, avg and PreMulSum of tuttiAllReduce, tuttiReduce, tuttiReduceScatter and its v form.  Everything
 * else is exact.  Each hop rounds; all ranks of an AllReduce end with the same bits.  docs/networks.md has the bounds
 * of the errors. */
typedef enum {
  TUTTI_WIRE_FULL = 0, /* their own type */
  TUTTI_WIRE_BF16 = 1, /* float32 as bfloat16 */
  TUTTI_WIRE_FP8 = 2,  /* float32, float16, bfloat16 as float8 e4m3; 32 numbers share a scale, a power of two */
  TUTTI_WIRE_INT8 = 3  /* the same with int8 */
} tuttiWireFormat_t;

#endif /* TUTTI_OPTIONS_H_ */
