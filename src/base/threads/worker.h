// One thread with an owner.
#pragma once

#include <functional>
#include <memory>

namespace tessera {

/// A thread that runs `work` and ends with its object, for instance to load data before the step
/// needs it. join() rethrows an exception of `work`.
class Worker {
 public:
  explicit Worker(std::function<void()> work);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
