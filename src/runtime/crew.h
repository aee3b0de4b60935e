// One thread a rank. It knows nothing of what they do.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

/// Threads that sleep until a job comes, do it each for its own index, and meet the caller at its end.
///
///   threads  call run() from one thread
class Crew {
 public:
  using Job = std::function<void(int index)>;

  explicit Crew(int size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Every thread runs job(its index).  throws  what the job threw on the lowest index, when all are done  memory  allocates nothing
  void run(const Job& job);

 private:
  void work(int index);
  void dismiss();

  std::mutex mutex_;
  std::condition_variable started_, ended_;
  const Job* job_ = nullptr;
  uint64_t jobs_ = 0;  // given out so far
  int busy_ = 0;       // threads that have not ended the last one
  bool dismissed_ = false;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
