#include "actors/grant.h"

#include <exception>
#include <new>

namespace troupe::actors {

Failure current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.place(), error.message(), error.hint()};
  } catch (const std::bad_alloc&) {
    return {Errc::out_of_memory, "memory", "the system has no more of it",
            "use fewer workers, fewer rows per forward, or bf16"};
  } catch (const std::exception& error) {
    return {Errc::internal, "worker", error.what(), {}};
  }
}

Error to_error(const Failure& failure) {
  return {failure.code, failure.place, failure.message, failure.hint};
}

}  // namespace troupe::actors
