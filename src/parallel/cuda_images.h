/* The layers' kernels as they lie in the library: images for cuModuleLoadData, then a null pointer. */
#ifndef TUTTI_SRC_PARALLEL_CUDA_IMAGES_H_
#define TUTTI_SRC_PARALLEL_CUDA_IMAGES_H_

#ifdef __cplusplus
extern "C" {
#endif
extern const void* const tutti_layer_images[];
#ifdef __cplusplus
}
#endif

#endif /* TUTTI_SRC_PARALLEL_CUDA_IMAGES_H_ */
