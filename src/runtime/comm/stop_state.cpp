#include "runtime/comm/stop_state.h"

#include <new>
#include <utility>

#include "base/error.h"
#include "base/machine_memory.h"

namespace tessera {
namespace {

std::string location_text(const Failure& failure) {
  if (failure.rank < 0) return "";
  if (failure.task.empty()) return "rank " + std::to_string(failure.rank);
  return "rank " + std::to_string(failure.rank) + ", task '" + failure.task + "'" +
         (failure.op.empty() ? "" : ", op '" + failure.op + "'");
}

/// InternalError puts its prefix before every message, even before one that already has it.
std::string without_prefix(std::string_view message) {
  constexpr std::string_view kPrefix = "internal error: ";
  if (message.starts_with(kPrefix)) message.remove_prefix(kPrefix.size());
  return std::string(message);
}

}  // namespace

void StopState::fail(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  stopped_.store(true, std::memory_order_release);
}

void StopState::rethrow() const {
  const std::lock_guard lock(mutex_);
  const std::string location = location_text(failure_.value());
  try {
    std::rethrow_exception(failure_->error);
  } catch (const UserError& error) {
    throw UserError(error.what_happened(),
                    error.why() + (location.empty() ? "" : " (" + location + ")"), error.fix(),
                    error.exit_code());
  } catch (const std::bad_alloc&) {
    throw out_of_memory_error(location);
  } catch (const std::exception& error) {
    throw InternalError((location.empty() ? "" : location + ": ") + without_prefix(error.what()));
  } catch (...) {
    throw InternalError((location.empty() ? "" : location + ": ") +
                        "something that is not an exception was thrown");
  }
}

}  // namespace tessera
