#include "kernels/cuda/attention_products.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <map>

#include "kernels/cuda/aligned.cuh"
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/blas.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kAttentionPlace = "attention";
constexpr std::int64_t kScratchBytes = std::int64_t{8} << 20U;
constexpr std::uintptr_t kHeadAlignment = 256;
constexpr int kPlansTried = 16;

/// A matrix per head, as the library sees it: column by column.
struct HeadMatrices {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading = 0;  ///< elements from column to column
  std::int64_t head = 0;     ///< elements from head to head
  DType dtype = DType::f32;
  std::uint32_t alignment = 0;  ///< of the first, bytes

  auto operator<=>(const HeadMatrices&) const = default;
};

/// c = α · op(a) · b for every head.
struct HeadProduct {
  HeadMatrices a;
  HeadMatrices b;
  HeadMatrices c;
  std::int64_t num_heads = 0;
  bool transposes_a = false;

  auto operator<=>(const HeadProduct&) const = default;
};

/// The products of one context. The library's first choice that does not split
/// sums serves a product; it follows from the product and the device.
class HeadProducts {
 public:
  explicit HeadProducts(Backend& backend)
      : backend_(backend),
        handle_(make_blas<cublasLtHandle_t>(blas(), kAttentionPlace,
                                            blas().create, blas().destroy)) {}

  void run(const HeadProduct& product, float alpha, const void* a,
           const void* b, void* c, std::byte* scratch) {
    const Plan& plan = this->plan(product);
    const float beta = 0.0F;
    check(blas(),
          blas().matmul(handle_.get(), plan.description.get(), &alpha, a,
                        plan.a.get(), b, plan.b.get(), &beta, c, plan.c.get(),
                        c, plan.c.get(), &plan.algorithm, scratch,
                        static_cast<std::size_t>(kScratchBytes),
                        backend_.stream()),
          kAttentionPlace);
  }

 private:
  using Layout = BlasHandle<cublasLtMatrixLayout_t>;
  struct Plan {
    BlasHandle<cublasLtMatmulDesc_t> description;
    Layout a;
    Layout b;
    Layout c;
    cublasLtMatmulAlgo_t algorithm;
  };

  [[nodiscard]] const BlasLt& blas() const { return backend_.libraries().blas; }

  template <typename Setter, typename Descriptor, typename Name, typename Value>
  void set(Setter setter, const Descriptor& descriptor, Name name,
           Value value) const {
    set_blas(blas(), kAttentionPlace, setter, descriptor.get(), name, value);
  }

  [[nodiscard]] Layout layout(const HeadMatrices& m, std::int64_t heads) const {
    auto made = make_blas<cublasLtMatrixLayout_t>(
        blas(), kAttentionPlace, blas().matrix_layout_create,
        blas().matrix_layout_destroy, blas_type(m.dtype),
        static_cast<std::uint64_t>(m.rows),
        static_cast<std::uint64_t>(m.columns), m.leading);
    const auto put = blas().matrix_layout_set_attribute;
    set(put, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
        static_cast<std::int32_t>(heads));
    set(put, made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.head);
    return made;
  }

  [[nodiscard]] const Plan& plan(const HeadProduct& product) {
    const auto known = plans_.find(product);
    if (known != plans_.end()) {
      return known->second;
    }
    const bool rounds =
        product.a.dtype == DType::f32 && backend_.options().tf32;
    Plan plan{make_blas<cublasLtMatmulDesc_t>(
                  blas(), kAttentionPlace, blas().matmul_desc_create,
                  blas().matmul_desc_destroy,
                  rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                  CUDA_R_32F),
              layout(product.a, product.num_heads),
              layout(product.b, product.num_heads),
              layout(product.c, product.num_heads),
              {}};
    set(blas().matmul_desc_set_attribute, plan.description,
        CUBLASLT_MATMUL_DESC_TRANSA,
        static_cast<std::int32_t>(product.transposes_a ? CUBLAS_OP_T
                                                       : CUBLAS_OP_N));
    set(blas().matmul_desc_set_attribute, plan.description,
        CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(CUBLAS_OP_N));
    choose(product, plan);
    return plans_.emplace(product, std::move(plan)).first->second;
  }

  void choose(const HeadProduct& product, Plan& plan) const {
    auto preference = make_blas<cublasLtMatmulPreference_t>(
        blas(), kAttentionPlace, blas().preference_create,
        blas().preference_destroy);
    const auto put = blas().preference_set_attribute;
    set(put, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(kScratchBytes));
    set(put, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    set(put, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        product.a.alignment);
    set(put, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        product.b.alignment);
    set(put, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        product.c.alignment);
    set(put, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        product.c.alignment);
    std::array<cublasLtMatmulHeuristicResult_t, kPlansTried> found{};
    int count = 0;
    check(blas(),
          blas().algo_get_heuristic(handle_.get(), plan.description.get(),
                                    plan.a.get(), plan.b.get(), plan.c.get(),
                                    plan.c.get(), preference.get(), kPlansTried,
                                    found.data(), &count),
          kAttentionPlace);
    for (int i = 0; i < count; ++i) {
      const auto& candidate = found[static_cast<std::size_t>(i)];
      // The preference above is only a request, so each answer is checked.
      if (candidate.state == CUBLAS_STATUS_SUCCESS &&
          sums_in_one_sequence(blas(), candidate.algo, kAttentionPlace)) {
        plan.algorithm = candidate.algo;
        return;
      }
    }
    check(blas(), CUBLAS_STATUS_NOT_SUPPORTED, kAttentionPlace);
  }

  Backend& backend_;
  BlasHandle<cublasLtHandle_t> handle_;
  std::map<HeadProduct, Plan> plans_;
};

/// What the best alignment and steps of so many elements have in common.
std::uint32_t alignment_of(std::initializer_list<std::int64_t> steps,
                           DType dtype) {
  auto bits = kHeadAlignment;
  for (const std::int64_t step : steps) {
    bits |= static_cast<std::uintptr_t>(step) * size_of(dtype);
  }
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// Rows of q, k, v or out: one head of one item is a matrix [head_dim, tokens]
/// of columns `row` elements apart.
struct HeadRows {
  const std::byte* first;
  std::int64_t column;
  std::int64_t here;    ///< tokens of an item that are there
  std::int64_t tokens;  ///< of the whole item
  std::int64_t row;
  DType dtype;

  HeadRows(const HeadsView& view, std::int64_t whole)
      : first(view.base.bytes().data() + static_cast<std::size_t>(view.column) *
                                             size_of(view.base.dtype())),
        column(view.column),
        here(view.base.dim(1)),
        tokens(whole),
        row(view.base.dim(2)),
        dtype(view.base.dtype()) {}

  [[nodiscard]] const std::byte* at(std::int64_t item,
                                    std::int64_t token) const {
    return first + static_cast<std::size_t>((item * here + token) * row) *
                       size_of(dtype);
  }
  /// `count` tokens of every head. The alignment holds for every item and block
  /// of `block` tokens, and follows from the shapes: neither the place in a
  /// batch nor an address can change it.
  [[nodiscard]] HeadMatrices matrices(std::int64_t count, std::int64_t head_dim,
                                      std::int64_t block) const {
    return {
        .rows = head_dim,
        .columns = count,
        .leading = row,
        .head = head_dim,
        .dtype = dtype,
        .alignment = alignment_of({column, tokens * row, block * row}, dtype)};
  }
};

/// Heads of `width` columns in all, copied into rows of `row` columns.
HeadsView with_row_width(ExecContext& ctx, const HeadsView& view,
                         std::int64_t width, std::int64_t row) {
  const Shape shape = {view.base.dim(0), view.base.dim(1), row};
  Tensor wide = ctx.workspace().take(shape, view.base.dtype());
  Tensor rows = wide.reshape({shape[0] * shape[1], row});
  Backend::of(ctx).copy_columns(
      view.base.reshape({rows.dim(0), view.base.dim(2)}), view.column, rows, 0,
      width);
  return {wide, 0};
}

/// The mask of query rows [begin, begin + rows).
LogitsBlock block_of(const AttentionMask& mask, std::int64_t begin,
                     std::int64_t rows) {
  LogitsBlock block{.rows = rows, .first_row = begin, .causal = mask.causal};
  if (!mask.bias.empty()) {
    block.bias = mask.bias.data<float>();
    block.bias_rows = mask.bias.dim(1);
    block.bias_row = mask.bias.dim(2);
  }
  return block;
}

}  // namespace

float scale_of(const AttentionMask& mask, std::int64_t head_dim) {
  return mask.scale.value_or(1.0F / std::sqrt(static_cast<float>(head_dim)));
}

void attend_by_products(ExecContext& ctx, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v,
                        std::int64_t num_heads, std::int64_t head_dim,
                        const WholeItem& whole, const AttentionMask& mask,
                        Tensor& out) {
  auto& products = Backend::of(ctx).state<HeadProducts>();
  const DType dtype = out.dtype();
  const std::int64_t width = num_heads * head_dim;
  const Workspace::Scope scope(ctx.workspace());
  AlignedOutput output(ctx, out, kHeadAlignment);
  // In rows as wide as the whole's, so that the library gets the same numbers.
  const auto as_of_whole = [&](const HeadsView& view, std::int64_t row) {
    if (row == 0 || row == view.base.dim(2)) {
      return HeadsView{aligned_input(ctx, view.base, kHeadAlignment),
                       view.column};
    }
    return with_row_width(ctx, view, width, row);
  };
  const HeadsView q_here = as_of_whole(q, whole.row_width);
  const HeadRows q_rows(q_here, whole.rows);
  const HeadRows k_rows(as_of_whole(k, whole.key_width), k.base.dim(1));
  const HeadRows v_rows(as_of_whole(v, whole.key_width), v.base.dim(1));
  const HeadRows out_rows({output.tensor(), 0}, whole.rows);
  const std::int64_t keys = k_rows.tokens;
  const std::int64_t block = product_rows(num_heads, keys, whole.rows);
  const float scale = scale_of(mask, head_dim);
  const RowRange own{whole.first_row, whole.first_row + q.base.dim(1)};
  // Whether the shard's rows are as aligned as the whole's. With an odd number
  // of 16-bit elements in a row they may not be.
  const std::int64_t more = out.dim(0) > 1 ? q_rows.here : 0;
  const bool keeps_alignment =
      alignment_of({own.begin * q_rows.row, own.begin * width,
                    more * q_rows.row, more * width},
                   dtype) == kHeadAlignment;

  Tensor scratch = ctx.workspace().take({kScratchBytes}, DType::u8);
  const Tensor all_logits =
      ctx.workspace().take({num_heads * block, keys}, DType::f32);
  const Tensor all_powers =
      dtype == DType::f32
          ? all_logits
          : ctx.workspace().take({num_heads * block, keys}, dtype);
  // The rows of a block that this shard has only some of.
  Tensor some_q;
  Tensor some_out;
  if (q_rows.here < whole.rows) {
    some_q = ctx.workspace().take({block, q_rows.row}, dtype);
    some_out = ctx.workspace().take({block, width}, dtype);
  }
  for (std::int64_t item = 0; item < out.dim(0); ++item) {
    for (std::int64_t begin = own.begin - own.begin % block; begin < own.end;
         begin += block) {
      const std::int64_t rows = std::min(block, whole.rows - begin);
      const RowRange mine = intersection(own, {begin, begin + rows});
      const bool is_part =
          mine.size() < rows || (!some_q.empty() && !keeps_alignment);
      const std::byte* q_block = nullptr;
      const std::byte* out_block = nullptr;
      if (is_part) {
        // What is computed for the other rows is not used.
        Tensor to = some_q.slice(mine.begin - begin, mine.end - begin);
        Backend::of(ctx).copy(q_here.base.item(item).slice(
                                  mine.begin - own.begin, mine.end - own.begin),
                              to);
        q_block = some_q.bytes().data() +
                  static_cast<std::size_t>(q_rows.column) * size_of(dtype);
        out_block = some_out.bytes().data();
      } else {
        q_block = q_rows.at(item, begin - own.begin);
        out_block = out_rows.at(item, begin - own.begin);
      }
      Tensor logits = all_logits.slice(0, num_heads * rows);
      Tensor powers = all_powers.slice(0, num_heads * rows);
      // [keys, rows] per head; and row by row the softmax's [rows, keys].
      HeadMatrices square{.rows = keys,
                          .columns = rows,
                          .leading = keys,
                          .head = rows * keys,
                          .dtype = DType::f32,
                          .alignment = kHeadAlignment};
      products.run({.a = k_rows.matrices(keys, head_dim, keys),
                    .b = q_rows.matrices(rows, head_dim, block),
                    .c = square,
                    .num_heads = num_heads,
                    .transposes_a = true},
                   scale, k_rows.at(item, 0), q_block, logits.bytes().data(),
                   scratch.bytes().data());
      attention_weights(ctx, logits, block_of(mask, begin, rows), powers);
      square.dtype = dtype;
      products.run({.a = v_rows.matrices(keys, head_dim, keys),
                    .b = square,
                    .c = out_rows.matrices(rows, head_dim, block),
                    .num_heads = num_heads,
                    .transposes_a = false},
                   1.0F, v_rows.at(item, 0), powers.bytes().data(),
                   const_cast<std::byte*>(out_block), scratch.bytes().data());
      if (is_part) {
        Tensor to = output.tensor().item(item).slice(mine.begin - own.begin,
                                                     mine.end - own.begin);
        Backend::of(ctx).copy(
            some_out.slice(mine.begin - begin, mine.end - begin), to);
      }
    }
  }
  output.finish();
}

}  // namespace troupe::kernels::cuda
