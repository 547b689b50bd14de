# Sources of the CUDA backend. Builds without CUDA use them in tests, with the CUDA test double.
set(device ${PROJECT_SOURCE_DIR}/framework/device/cuda)
set(HEXAD_CUDA_DEVICE_SOURCES
  ${device}/device_blocks.cpp ${device}/card_allocator.cpp ${device}/card_memory.cpp ${device}/cuda_check.cpp ${device}/choose_card.cpp
  ${device}/cuda_backend.cpp ${device}/cuda_stream.cpp ${device}/driver.cpp ${device}/kernel_loading.cpp ${device}/named_range.cpp
  ${device}/pinned_allocator.cpp ${device}/pinned_memory.cpp ${device}/plain_memory.cpp ${device}/queue.cpp
  ${device}/reused_buffers.cpp ${device}/segment.cpp ${device}/shared_library.cpp ${device}/thread_card.cpp
  ${device}/whole_blocks.cpp)

set(kernels ${PROJECT_SOURCE_DIR}/framework/kernels/cuda)
set(HEXAD_CUDA_KERNEL_SOURCES
  ${kernels}/attention/attention.cpp ${kernels}/attention/cudnn.cpp ${kernels}/cuda_table.cpp ${kernels}/products/blas.cpp
  ${kernels}/products/grouped.cpp ${kernels}/products/matmul.cpp)
# Kernels that a C++ compiler can also compile, for the CUDA test double. Each .cu file directly in
# framework/kernels/cuda has one family of kernels. CMake looks for new files before each build.
file(GLOB cuda_families CONFIGURE_DEPENDS ${kernels}/*.cu)
set(HEXAD_CUDA_KERNELS
  attention/documents attention/heads_first attention/merge attention/plain_backward attention/plain_forward
  attention/tensor_backward_keys attention/tensor_backward_queries attention/tensor_forward attention/tiled attention/visibility
  products/bf16_parts products/grouped_simple products/product_groups)
list(TRANSFORM HEXAD_CUDA_KERNELS PREPEND ${kernels}/)
list(TRANSFORM HEXAD_CUDA_KERNELS APPEND .cu)
list(APPEND HEXAD_CUDA_KERNELS ${cuda_families})

set(nccl ${PROJECT_SOURCE_DIR}/parallel/comm/nccl)
set(HEXAD_NCCL_SOURCES
  ${PROJECT_SOURCE_DIR}/parallel/comm/card_messages.cpp
  ${nccl}/card_rank.cpp ${nccl}/channels.cpp ${nccl}/check.cpp ${nccl}/communicator.cpp ${nccl}/connecting.cpp
  ${nccl}/device_group.cpp ${nccl}/nccl_group.cpp ${nccl}/message_pieces.cpp ${nccl}/nccl_windows.cpp ${nccl}/registered.cpp ${nccl}/timed_events.cpp ${nccl}/watch.cpp)
