#include "kernels/reduction.h"

#include <cstring>
#include <string>

#include "kernels/check.h"
#include "kernels/copy.h"
#include "kernels/cpu/ops.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

void check_operand(ExecContext& ctx, std::string_view place,
                   std::string_view what, const Tensor& x) {
  check_device(place, ctx.device(), {&x});
  check_dtype(place, what, x, {DType::f32});
}

void check_pair(ExecContext& ctx, std::string_view place, const Tensor& a,
                const Tensor& b) {
  check_operand(ctx, place, "a", a);
  check_operand(ctx, place, "b", b);
  check_shape(place, "b", b.shape(), a.shape());
}

}  // namespace

Readings::Readings(ExecContext& ctx, std::size_t capacity)
    : ctx_(ctx), capacity_(capacity) {
  values_.reserve(capacity);
  if (ctx.device().kind != DeviceKind::cpu) {
    device_values_ = ctx.empty({static_cast<std::int64_t>(capacity),
                                static_cast<std::int64_t>(sizeof(double))},
                               DType::u8);
  }
}

std::size_t Readings::next() {
  require(count_ < capacity_, Errc::internal, "readings",
          "more numbers than the " + std::to_string(capacity_) +
              " that were announced");
  return count_++;
}

std::size_t Readings::sum_squared_difference(const Tensor& a, const Tensor& b) {
  check_pair(ctx_, "sum_squared_difference", a, b);
  const std::size_t index = next();
  switch (ctx_.device().kind) {
    case DeviceKind::cpu:
      values_.push_back(cpu::sum_squared_difference(a, b));
      break;
    case DeviceKind::cuda:
      cuda::sum_squared_difference(ctx_, a, b, device_values_, index);
      break;
    case DeviceKind::meter:
      throw_no_backend("reduction", ctx_.device());
  }
  return index;
}

std::size_t Readings::sum_squares(const Tensor& a) {
  check_operand(ctx_, "sum_squares", "a", a);
  const std::size_t index = next();
  switch (ctx_.device().kind) {
    case DeviceKind::cpu:
      values_.push_back(cpu::sum_squares(a));
      break;
    case DeviceKind::cuda:
      cuda::sum_squares(ctx_, a, device_values_, index);
      break;
    case DeviceKind::meter:
      throw_no_backend("reduction", ctx_.device());
  }
  return index;
}

std::size_t Readings::bytes_equal(const Tensor& a, const Tensor& b) {
  check_pair(ctx_, "bytes_equal", a, b);
  const std::size_t index = next();
  switch (ctx_.device().kind) {
    case DeviceKind::cpu:
      values_.push_back(troupe::bytes_equal(a, b) ? 1.0 : 0.0);
      break;
    case DeviceKind::cuda:
      cuda::bytes_equal(ctx_, a, b, device_values_, index);
      break;
    case DeviceKind::meter:
      throw_no_backend("reduction", ctx_.device());
  }
  return index;
}

std::size_t Readings::all_finite(const Tensor& x) {
  check_operand(ctx_, "all_finite", "x", x);
  const std::size_t index = next();
  switch (ctx_.device().kind) {
    case DeviceKind::cpu:
      values_.push_back(cpu::all_finite(x) ? 1.0 : 0.0);
      break;
    case DeviceKind::cuda:
      cuda::all_finite(ctx_, x, device_values_, index);
      break;
    case DeviceKind::meter:
      throw_no_backend("reduction", ctx_.device());
  }
  return index;
}

void Readings::send() {
  if (ctx_.device().kind != DeviceKind::cpu && count_ > 0) {
    sent_ = read_back(
        ctx_, device_values_.slice(0, static_cast<std::int64_t>(count_)));
  }
}

std::span<const double> Readings::values() {
  if (ctx_.device().kind != DeviceKind::cpu && count_ > 0) {
    require(!sent_.empty(), Errc::internal, "readings",
            "numbers are looked at that were not sent");
    values_.resize(static_cast<std::size_t>(sent_.dim(0)));
    std::memcpy(values_.data(), sent_.bytes().data(), sent_.num_bytes());
  }
  return values_;
}

std::span<const double> Readings::wait() {
  if (ctx_.device_backend() != nullptr && count_ > 0) {
    send();
    // What ctx keeps is not this function's to release.
    ctx_.device_backend()->mark()->wait();
  }
  return values();
}

void add_carry(ExecContext& ctx, const Tensor& step, double carry,
               const Tensor& x_new, const Tensor& x_old, Tensor& out) {
  constexpr const char* kPlace = "add_carry";
  check_operand(ctx, kPlace, "the step", step);
  check_operand(ctx, kPlace, "x_new", x_new);
  check_operand(ctx, kPlace, "x_old", x_old);
  check_operand(ctx, kPlace, "out", out);
  check_shape(kPlace, "x_new", x_new.shape(), step.shape());
  check_shape(kPlace, "x_old", x_old.shape(), step.shape());
  check_shape(kPlace, "out", out.shape(), step.shape());
  const auto factor = static_cast<float>(carry);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::add_carry(step, factor, x_new, x_old, out);
    case DeviceKind::cuda:
      return cuda::add_carry(ctx, step, factor, x_new, x_old, out);
    case DeviceKind::meter:
      return;
  }
}

}  // namespace troupe::kernels
