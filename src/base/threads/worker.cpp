#include "base/threads/worker.h"

#include <exception>
#include <thread>
#include <utility>

#include "base/threads/address_space.h"

namespace tessera {

struct Worker::State {
  std::exception_ptr error;  // read after the thread has ended
  std::thread thread;

  void end() {
    if (thread.joinable()) thread.join();
  }
};

Worker::Worker(std::function<void()> work) : state_(std::make_unique<State>()) {
  require_memory_for_thread();
  state_->thread = std::thread([state = state_.get(), work = std::move(work)] {
    try {
      work();
    } catch (...) {
      state->error = std::current_exception();
    }
  });
}

Worker::~Worker() {
  state_->end();
}

void Worker::join() {
  state_->end();
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
}

}  // namespace tessera
