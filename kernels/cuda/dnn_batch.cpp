#include "kernels/cuda/dnn_batch.cuh"

#include <algorithm>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kBatchPlace = "cudnn";
// A prime: rows and items of a repeated block of numbers still differ.
constexpr std::int64_t kBlockNumbers = 65521;

/// Queues one plan. The library reads the bindings during the call.
void queue(ExecContext& ctx, const DnnTarget& target, const DnnPlan& plan,
           std::span<const DnnOperand> operands) {
  const Workspace::Scope scope(ctx.workspace());
  void* workspace = nullptr;
  if (plan.workspace_bytes() > 0) {
    workspace = ctx.workspace()
                    .take({plan.workspace_bytes()}, DType::u8)
                    .bytes()
                    .data();
  }
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const DnnOperand& operand : operands) {
    ids.push_back(operand.id);
    addresses.push_back(operand.address);
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  DnnDescriptor bindings(target.dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  bindings.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count,
               ids.data());
  bindings.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               count, addresses.data());
  bindings.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
               workspace);
  bindings.finalize();
  check(target.dnn,
        target.dnn.execute(target.handle, plan.get(), bindings.get()),
        kBatchPlace);
}

std::size_t bytes_of(const DnnOperand& operand) {
  return static_cast<std::size_t>(operand.elements) * size_of(operand.dtype);
}

/// The operands of item `item`.
std::vector<DnnOperand> of_item(std::span<const DnnOperand> operands,
                                std::int64_t item) {
  std::vector<DnnOperand> moved(operands.begin(), operands.end());
  for (DnnOperand& operand : moved) {
    if (operand.role == DnnOperand::Role::input ||
        operand.role == DnnOperand::Role::output) {
      operand.address += static_cast<std::size_t>(item) * bytes_of(operand);
    }
  }
  return moved;
}

Tensor numbers(DType dtype, std::int64_t seed) {
  Tensor host({kBlockNumbers}, dtype);
  for (std::int64_t i = 0; i < kBlockNumbers; ++i) {
    switch (dtype) {
      case DType::bf16:
        host.data<bfloat16>()[i] = bfloat16::from_float(check_number(i, seed));
        break;
      case DType::f16:
        host.data<float16>()[i] = float16::from_float(check_number(i, seed));
        break;
      default:
        host.data<float>()[i] = check_number(i, seed);
    }
  }
  return host;
}

/// Device memory full of numbers, written by copies that double it.
Tensor filled(ExecContext& ctx, Backend& backend, const DnnOperand& operand,
              std::int64_t elements) {
  Tensor values = ctx.empty({elements}, operand.dtype);
  const Tensor block = numbers(operand.dtype, operand.id);
  std::int64_t done = std::min(elements, kBlockNumbers);
  Tensor first = values.slice(0, done);
  backend.copy(block.slice(0, done), first);
  while (done < elements) {
    const std::int64_t now = std::min(done, elements - done);
    Tensor next = values.slice(done, done + now);
    backend.copy(values.slice(0, now), next);
    done += now;
  }
  return values;
}

}  // namespace

float check_number(std::int64_t index, std::int64_t seed) {
  auto bits = static_cast<std::uint64_t>(seed * kBlockNumbers + index + 1) *
              0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits ^= bits >> 27U;
  return static_cast<float>(bits >> 40U) * 0x1p-22F - 2.0F;
}

DnnHandle::DnnHandle(Backend& backend) : dnn_(backend.libraries().dnn) {
  check(dnn_, dnn_.create(&handle_), kBatchPlace);
  check(dnn_, dnn_.set_stream(handle_, backend.stream()), kBatchPlace);
}

DnnHandle::~DnnHandle() { (void)dnn_.destroy(handle_); }

std::optional<DnnPlan> DnnPlans::find(std::int64_t items,
                                      const DnnRules& rules) {
  // Kernels are compiled, loaded and let go.
  const std::scoped_lock lock(set_up_mutex());
  try {
    std::optional<DnnPlan> plan =
        DnnPlan::find(graph_of_(items), rules, &refusal_);
    if (plan) {
      return plan;
    }
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) {
      throw;
    }
    refusal_ = error.what();
  }
  log_message(LogLevel::info, "cuDNN has no plan: " + refusal_);
  return std::nullopt;
}

const DnnPlan* DnnPlans::item_plan() {
  const auto known = plans_.find(1);
  const auto& plan = known != plans_.end()
                         ? known->second
                         : plans_.emplace(1, find(1, rules_)).first->second;
  return plan ? &*plan : nullptr;
}

const DnnEngine* DnnPlans::engine() {
  const DnnPlan* plan = item_plan();
  return plan != nullptr ? &plan->engine() : nullptr;
}

bool DnnPlans::bytes_agree(ExecContext& ctx, const DnnPlan& plan,
                           std::int64_t items,
                           std::span<const DnnOperand> operands) {
  Backend& backend = Backend::of(ctx);
  const DnnTarget target = backend.state<DnnHandle>().target();
  std::vector<DnnOperand> stand_ins(operands.begin(), operands.end());
  std::vector<Tensor> memory;
  std::vector<Tensor> results[2];
  for (int way = 0; way < 2; ++way) {
    for (DnnOperand& operand : stand_ins) {
      using Role = DnnOperand::Role;
      if (operand.role == Role::output) {
        // Filled: a plan may leave out columns of wider rows.
        results[way].push_back(
            filled(ctx, backend, operand, items * operand.elements));
        operand.address = results[way].back().bytes().data();
      } else if (operand.role != Role::number && way == 0) {
        const bool is_shared = operand.role == Role::shared;
        memory.push_back(filled(ctx, backend, operand,
                                operand.elements * (is_shared ? 1 : items)));
        operand.address = memory.back().bytes().data();
      }
    }
    if (way == 0) {
      queue(ctx, target, plan, stand_ins);
    } else {
      queue_one_by_one(ctx, items, stand_ins);
    }
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    Tensor together(results[0][i].shape(), results[0][i].dtype());
    Tensor apart(together.shape(), together.dtype());
    backend.copy(results[0][i], together);  // waits
    backend.copy(results[1][i], apart);
    if (!bytes_equal(together, apart)) {
      return false;
    }
  }
  return true;
}

const DnnPlan* DnnPlans::together(ExecContext& ctx, std::int64_t items,
                                  std::span<const DnnOperand> operands) {
  const auto known = plans_.find(items);
  if (known != plans_.end()) {
    return known->second ? &*known->second : nullptr;
  }
  const Backend& backend = Backend::of(ctx);
  if (backend.is_recording()) {
    return nullptr;
  }
  const bool must_agree = backend.options().batch_invariant && items > 1;
  DnnRules rules = rules_;
  if (must_agree) {
    rules.only = &item_plan()->engine();
  }
  const auto drop = [](std::optional<DnnPlan>& unfit) {
    const std::scoped_lock lock(set_up_mutex());
    unfit.reset();
  };
  std::optional<DnnPlan> plan = find(items, rules);
  if (plan && must_agree) {
    try {
      if (!bytes_agree(ctx, *plan, items, operands)) {
        drop(plan);
      }
    } catch (const Error& error) {
      // Item by item needs no more memory than the operation itself.
      if (error.code() != Errc::device_full) {
        throw;
      }
      drop(plan);
    }
  }
  const auto made = plans_.emplace(items, std::move(plan)).first;
  return made->second ? &*made->second : nullptr;
}

void DnnPlans::queue_one_by_one(ExecContext& ctx, std::int64_t items,
                                std::span<const DnnOperand> operands) {
  Backend& backend = Backend::of(ctx);
  const DnnTarget target = backend.state<DnnHandle>().target();
  for (std::int64_t item = 0; item < items; ++item) {
    queue(ctx, target, *item_plan(), of_item(operands, item));
  }
}

bool DnnPlans::run(ExecContext& ctx, std::int64_t items,
                   std::span<const DnnOperand> operands) {
  Backend& backend = Backend::of(ctx);
  const DnnTarget target = backend.state<DnnHandle>().target();
  if (backend.options().batch_invariant && !item_plan()) {
    return false;
  }
  if (const DnnPlan* plan = together(ctx, items, operands)) {
    queue(ctx, target, *plan, operands);
    return true;
  }
  if (!item_plan()) {
    return false;
  }
  queue_one_by_one(ctx, items, operands);
  return true;
}

}  // namespace troupe::kernels::cuda
