/* In place of the kernels where there was no nvcc: one image that no driver takes for code, so that loading it says
 * that something is wrong.  (A driver that needs no code, as in the tests, takes it.) */
static const char kNone[16] __attribute__((aligned(16))) = "no kernels";
extern const void* const tutti_layer_images[];
__attribute__((visibility("hidden"))) const void* const tutti_layer_images[] = {kNone, 0};
