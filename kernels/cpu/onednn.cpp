#include "kernels/cpu/onednn.h"

#include <array>
#include <cstring>
#include <string>

#include "kernels/core/error.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

using dnnl::memory;

// Packing must not depend on the rows of a later call; the library picks the
// layout for about this many.
constexpr std::int64_t kPackingRows = 256;

memory::desc row_major(std::int64_t rows, std::int64_t columns, DType dtype) {
  return {memory::dims{rows, columns}, library_type(dtype),
          memory::dims{columns, 1}};
}

memory::desc second_operand(const MatmulShape& shape) {
  switch (shape.layout) {
    case Layout::packed:
      return packed_weights(shape.k, shape.n, shape.dtype);
    case Layout::rows:
      return row_major(shape.k, shape.n, shape.dtype);
    case Layout::transposed:
      break;
  }
  return {memory::dims{shape.k, shape.n}, library_type(shape.dtype),
          memory::dims{1, shape.k}};
}

/// Whether oneDNN's product on the tile unit must not be used: before 3.1 it
/// leaves the tiles configured for another shape when the last block of K, to
/// the next even number, is as deep as a whole one. Then the processor stops
/// the process (SIGILL), or results are wrong (uxlfoundation/oneDNN#1661,
/// mended by its commit f401ed2).
bool tiles_are_misconfigured(std::int64_t k, DType dtype) {
  constexpr std::int64_t kDepth = 32;
  return dtype == DType::bf16 && k > kDepth && k % kDepth == kDepth - 1;
}

dnnl::matmul::primitive_desc describe_matmul(std::int64_t m, std::int64_t n,
                                             std::int64_t k, DType dtype,
                                             const memory::desc& b) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    // next_impl reads it again.
    const dnnl::matmul::desc wanted(row_major(m, k, dtype), b,
                                    row_major(m, n, DType::f32));
    dnnl::matmul::primitive_desc found(wanted, attr, engine());
    while (tiles_are_misconfigured(k, dtype) &&
           std::strstr(found.impl_info_str(), "amx") != nullptr &&
           found.next_impl()) {
    }
    return found;
  } catch (const dnnl::error& error) {
    throw Error(Errc::unsupported, "matmul",
                "this CPU cannot multiply " + std::string(to_string(dtype)) +
                    " matrices (" + error.what() + ")",
                "use --dtype f32");
  }
}

memory without_data(const memory::desc& desc) {
  return {desc, engine(), DNNL_MEMORY_NONE};
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

bool writes_native_bfloat16() {
  static const bool instance = [] {
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_bf16 ||
           isa == dnnl::cpu_isa::avx512_core_amx;
  }();
  return instance;
}

dnnl::memory::data_type library_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    default:
      throw Error(Errc::invalid_argument, "matmul",
                  "wrong element type: got " + std::string(to_string(dtype)) +
                      ", expected f32 or bf16");
  }
}

dnnl::memory::desc packed_weights(std::int64_t k, std::int64_t n, DType dtype) {
  const memory::desc any(memory::dims{k, n}, library_type(dtype),
                         memory::format_tag::any);
  return describe_matmul(kPackingRows, n, k, dtype, any).weights_desc();
}

Matmul::Matmul(const MatmulShape& shape, int num_threads)
    : descriptor_(describe_matmul(shape.m, shape.n, shape.k, shape.dtype,
                                  second_operand(shape))),
      primitive_(descriptor_),
      scratch_bytes_(descriptor_.scratchpad_desc().get_size()) {
  for (int thread = 0; thread < num_threads; ++thread) {
    slots_.push_back({dnnl::stream(engine()),
                      without_data(descriptor_.src_desc()),
                      without_data(descriptor_.weights_desc()),
                      without_data(descriptor_.dst_desc()),
                      without_data(descriptor_.scratchpad_desc())});
  }
}

void Matmul::run(int thread, const void* a, const void* b, float* out,
                 std::byte* scratch) {
  Slot& slot = slots_[static_cast<std::size_t>(thread)];
  // The library's handles are not const-correct; operands are only read.
  slot.b.set_data_handle(const_cast<void*>(b));
  execute(slot, slot.b, a, out, scratch);
}

void Matmul::run(int thread, const void* a, const dnnl::memory& b, float* out,
                 std::byte* scratch) {
  execute(slots_[static_cast<std::size_t>(thread)], b, a, out, scratch);
}

void Matmul::execute(Slot& slot, const dnnl::memory& b, const void* a,
                     float* out, std::byte* scratch) {
  slot.a.set_data_handle(const_cast<void*>(a));
  slot.out.set_data_handle(out);
  slot.scratch.set_data_handle(scratch);
  // The C++ call builds a map and a vector each time.
  const std::array<dnnl_exec_arg_t, 4> arguments{{
      {DNNL_ARG_SRC, slot.a.get()},
      {DNNL_ARG_WEIGHTS, b.get()},
      {DNNL_ARG_DST, slot.out.get()},
      {DNNL_ARG_SCRATCHPAD, slot.scratch.get()},
  }};
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), slot.stream.get(), static_cast<int>(arguments.size()),
      arguments.data());
  if (status != dnnl_success) {
    throw Error(
        status == dnnl_out_of_memory ? Errc::out_of_memory : Errc::internal,
        "matmul",
        "the library refused to run: got status " +
            std::to_string(static_cast<int>(status)));
  }
}

MatmulCache& MatmulCache::of(ExecContext& ctx) {
  std::shared_ptr<void>& backend = ctx.backend();
  if (!backend) {
    backend = std::shared_ptr<MatmulCache>(new MatmulCache(ctx.num_threads()));
    use_one_openmp_thread();
  }
  return *static_cast<MatmulCache*>(backend.get());
}

Matmul& MatmulCache::get(const MatmulShape& shape) {
  std::unique_ptr<Matmul>& product = products_[shape];
  if (!product) {
    product = std::make_unique<Matmul>(shape, num_threads_);
  }
  return *product;
}

void MatmulCache::trim() {
  if (products_.size() > kMostProducts) {
    products_.clear();
  }
}

}  // namespace troupe::kernels::cpu
