#include "comm/stop_state.h"

#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

std::string place_text(const Failure& failure) {
  if (failure.rank < 0) return "";
  if (failure.task.empty()) return "rank " + std::to_string(failure.rank);
  return "rank " + std::to_string(failure.rank) + ", task '" + failure.task + "'" +
         (failure.op.empty() ? "" : ", op '" + failure.op + "'");
}

/// InternalError puts its mark in front of every message: once is enough.
std::string without_mark(std::string_view message) {
  constexpr std::string_view kMark = "internal error: ";
  if (message.starts_with(kMark)) message.remove_prefix(kMark.size());
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
  const std::string place = place_text(failure_.value());
  try {
    std::rethrow_exception(failure_->error);
  } catch (const UserError& error) {
    throw UserError(error.what_happened(), error.why() + (place.empty() ? "" : " (" + place + ")"),
                    error.fix(), error.exit_code());
  } catch (const std::exception& error) {
    throw InternalError((place.empty() ? "" : place + ": ") + without_mark(error.what()));
  } catch (...) {
    throw InternalError((place.empty() ? "" : place + ": ") +
                        "something that is not an exception was thrown");
  }
}

}  // namespace tessera
