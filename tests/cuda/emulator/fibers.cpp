#include "tests/cuda/emulator/fibers.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "tests/cuda/emulator/machine.h"

#if !defined(__x86_64__)
#error "the emulator's switch of stacks is written for x86-64"
#endif

// Keeps what a callee keeps (System V ABI for x86-64), stores the stack pointer
// to *from and goes on where `to` was stored.
extern "C" void troupe_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl troupe_emulator_switch
.type troupe_emulator_switch, @function
troupe_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size troupe_emulator_switch, .-troupe_emulator_switch
)");

namespace troupe::emulator {
namespace {

// Sanitizers make frames larger.
constexpr std::size_t kStackBytes = std::size_t{256} << 10U;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kSavedRegisters = 6;

thread_local Fibers* running = nullptr;

}  // namespace

Fibers::~Fibers() {
  for (const Fiber& fiber : fibers_) {
    munmap(fiber.stack, kStackBytes + kGuardBytes);
  }
}

void Fibers::add_stack() {
  void* memory =
      mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    report_bug("no memory for the stack of a kernel's thread");
  }
  Fiber& fiber = fibers_.emplace_back();
  fiber.stack = static_cast<std::byte*>(memory);
  fiber.sanitized.set_up(fiber.stack + kGuardBytes, kStackBytes);
}

void Fibers::start(int count, std::function<void(int)> body) {
  while (fibers_.size() < static_cast<std::size_t>(count)) {
    add_stack();
  }
  body_ = std::move(body);
  sanitized_outside_ = {};
  for (int i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    // As after a call: `enter` finds the stack 8 bytes off a multiple of 16.
    std::byte* top = fiber.stack + kGuardBytes + kStackBytes - 8;
    auto* frame = reinterpret_cast<std::uintptr_t*>(top) - kSavedRegisters - 1;
    std::memset(frame, 0, kSavedRegisters * sizeof(*frame));
    frame[kSavedRegisters] = reinterpret_cast<std::uintptr_t>(&Fibers::enter);
    *reinterpret_cast<std::uintptr_t*>(top) = 0;
    fiber.at = frame;
    fiber.has_ended = false;
  }
}

void Fibers::enter() {
  Fibers& all = *running;
  all.fibers_[static_cast<std::size_t>(all.current_)].sanitized.enter_from(
      all.sanitized_outside_, true);
  try {
    all.body_(all.current_);
  } catch (const std::exception& error) {
    report_bug(std::string("an exception: ") + error.what());
  }
  all.fibers_[static_cast<std::size_t>(all.current_)].has_ended = true;
  all.yield();
}

bool Fibers::resume(int fiber) {
  running = this;
  current_ = fiber;
  Fiber& it = fibers_[static_cast<std::size_t>(fiber)];
  sanitized_outside_.leave_for(it.sanitized);
  troupe_emulator_switch(&outside_, it.at);
  sanitized_outside_.enter_from(it.sanitized);
  return !it.has_ended;
}

void Fibers::yield() {
  Fiber& it = fibers_[static_cast<std::size_t>(current_)];
  it.sanitized.leave_for(sanitized_outside_, it.has_ended);
  troupe_emulator_switch(&it.at, outside_);
  it.sanitized.enter_from(sanitized_outside_);
}

}  // namespace troupe::emulator
