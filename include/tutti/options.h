/* What fields of tuttiConfig_t may be. */
#ifndef TUTTI_OPTIONS_H_
#define TUTTI_OPTIONS_H_

/* Where a communicator's ranks compute. */
typedef enum {
  TUTTI_DEVICE_AUTO = 0, /* what the variable TUTTI_DEVICE says; HOST if it says nothing */
  TUTTI_DEVICE_HOST = 1,
  TUTTI_DEVICE_CUDA = 2
} tuttiDevice_t;

/* How threads wait for other ranks. */
typedef enum {
  TUTTI_WAIT_AUTO = 0,  /* awake for some milliseconds, then asleep; without spinning where ranks share cores */
  TUTTI_WAIT_SPIN = 1,  /* never give the core away */
  TUTTI_WAIT_YIELD = 2, /* awake, but let others have the core who want it */
  TUTTI_WAIT_BLOCK = 3  /* asleep at once, so that the core is free */
} tuttiWaitMode_t;

/* What sums of floating-point numbers travel as between hosts; inside a host they are exact.  Concerns sum, avg and
 * PreMulSum of tuttiAllReduce, tuttiReduce, tuttiReduceScatter and its v form; all else is exact, whatever is asked
 * for. Each hop rounds; all ranks of an AllReduce end with the same bits.  docs/networks.md has bounds of the errors.
 */
typedef enum {
  TUTTI_WIRE_FULL = 0, /* as they are */
  TUTTI_WIRE_BF16 = 1, /* float32 as bfloat16 */
  TUTTI_WIRE_FP8 = 2,  /* float32, float16, bfloat16 as float8 e4m3, every 32 with a scale, which is a power of two */
  TUTTI_WIRE_INT8 = 3  /* the same as int8 */
} tuttiWireFormat_t;

#endif /* TUTTI_OPTIONS_H_ */
