// Overhead of the runtime: a message, an act, a message between threads, an all-reduce. Prints the
// minimum and the median of many rounds. On a shared machine the minimum is the cost of the code,
// and the median is the cost that a user sees.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor/tensor.h"
#include "base/threads/worker.h"
#include "runtime/comm/mailbox.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/tasks/testing/hand_made.h"

#ifndef TESSERA_MPI_PROBE
#define TESSERA_MPI_PROBE ""  // the program mpi_all_reduce, if there is MPI
#endif

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

/// Times of one operation, one per round.
struct Times {
  std::vector<double> rounds;

  void add(double time) { rounds.push_back(time); }
  double smallest() const { return *std::min_element(rounds.begin(), rounds.end()); }
  double median() const {
    std::vector<double> sorted = rounds;
    std::nth_element(sorted.begin(),
                     sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

void print_nanoseconds(const char* what, const Times& times, double wanted) {
  std::printf("%-46s %9.1f %9.1f %9.0f\n", what, times.smallest(), times.median(), wanted);
}

// ---- one thread ----

/// A source and its readers. The id of each actor is its index.
std::vector<Actor> make_fan(int readers) {
  ActorDescription source{.id = 0,
                          .name = "source",
                          .inputs = {},
                          .outputs = {{.reg = 0, .slots = 1, .consumers = {}}}};
  for (int id = 1; id <= readers; ++id) source.outputs[0].consumers.push_back(id);
  std::vector<Actor> actors;
  actors.emplace_back(source);
  for (int id = 1; id <= readers; ++id)
    actors.emplace_back(ActorDescription{
        .id = id, .name = "reader", .inputs = {{.reg = 0, .producer = 0}}, .outputs = {}});
  return actors;
}

void deliver(std::vector<Actor>& actors, std::vector<Message>& messages) {
  for (const Message& message : messages) actors[message.to].receive(message);
  messages.clear();
}

/// Sends and receives a message: the act of a source with many readers, and their releases.
Times time_messages() {
  constexpr int kReaders = 64, kRecords = 200, kRounds = 50;
  std::vector<Actor> actors = make_fan(kReaders);
  std::vector<Message> messages;
  Times times;
  for (int round = 0; round < kRounds; ++round) {
    Clock::duration sum{};
    for (int record = 0; record < kRecords; ++record) {
      const auto begin = Clock::now();
      actors[0].begin();
      actors[0].finish(messages);
      deliver(actors, messages);
      sum += Clock::now() - begin;
      for (int id = 1; id <= kReaders; ++id) {
        actors[id].begin();
        actors[id].finish(messages);
      }
      const auto back = Clock::now();
      deliver(actors, messages);
      sum += Clock::now() - back;
    }
    times.add(nanoseconds(sum) / (2.0 * kReaders * kRecords));
  }
  return times;
}

/// A whole act with its two messages, in a chain.
Times time_acts() {
  constexpr int kActors = 100, kRecords = 100, kRounds = 50;
  std::vector<Actor> actors;
  for (int id = 0; id < kActors; ++id) {
    ActorDescription description{.id = id, .name = "link", .inputs = {}, .outputs = {}};
    if (id > 0) description.inputs.push_back({.reg = id - 1, .producer = id - 1});
    if (id + 1 < kActors)
      description.outputs.push_back({.reg = id, .slots = 1, .consumers = {id + 1}});
    actors.emplace_back(std::move(description));
  }
  std::vector<Message> messages;
  Times times;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int record = 0; record < kRecords; ++record)
      for (Actor& actor : actors) {
        if (!actor.ready()) std::abort();
        actor.begin();
        actor.finish(messages);
        deliver(actors, messages);
      }
    times.add(nanoseconds(Clock::now() - begin) / (1.0 * kRecords * kActors));
  }
  return times;
}

MeshPtr line_of(int ranks) {
  return std::make_shared<Mesh>(parse_mesh("dp=" + std::to_string(ranks)));
}

/// A program and its runtime.
struct Loaded {
  explicit Loaded(HandMade made)
      : graph(std::make_shared<TaskGraph>(made.finish())),
        runtime(graph->meshes.front()),
        program(&runtime.load(graph)) {
    runtime.initialize(*program, 0);
  }
  double step() {
    const auto begin = Clock::now();
    runtime.run(*program, {}, results);
    return nanoseconds(Clock::now() - begin);
  }

  std::shared_ptr<TaskGraph> graph;
  Runtime runtime;
  LoadedProgram* program;
  TensorMap results;
};

/// The time of a task with a kernel on one element: the difference of a long chain and one half as
/// long, without the fixed cost of a step.
Times time_tasks() {
  constexpr int kTasks = 2000, kRounds = 100;
  const auto chain = [](int tasks) {
    HandMade made(line_of(1));
    RegisterIndex at = made.variable("x", "f32[1]");
    for (int i = 0; i < tasks; ++i)
      at = made.compute("t" + std::to_string(i), {"copy", {}, {}, ""}, {at}, "f32[1]");
    return made;
  };
  Loaded whole(chain(kTasks)), half(chain(kTasks / 2));
  Times wholes, halves, times;
  for (int round = 0; round < kRounds; ++round) {
    wholes.add(whole.step());
    halves.add(half.step());
  }
  times.add((wholes.smallest() - halves.smallest()) / (kTasks / 2));
  times.add((wholes.median() - halves.median()) / (kTasks / 2));
  return times;
}

// ---- two threads ----

/// Half of a round trip through two mailboxes.
Times time_ping_pong() {
  constexpr int kTrips = 5000, kRounds = 60;
  Mailbox here(16), there(16);
  const StopState stop;
  const SpinPolicy spin_policy{.spins = 1 << 20, .yields = 0};
  const auto take = [&](Mailbox& mailbox) {
    Message message;
    while (!mailbox.take(message))
      mailbox.wait(stop, spin_policy, Clock::now() + std::chrono::seconds(60));
    return message;
  };
  Times times;
  Worker other([&] {
    for (int trip = 0; trip < kTrips * kRounds; ++trip) here.push(take(there));
  });
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int trip = 0; trip < kTrips; ++trip) {
      there.push({});
      take(here);
    }
    times.add(nanoseconds(Clock::now() - begin) / (2.0 * kTrips));
  }
  other.join();
  return times;
}

/// The minimal work of two threads for an all-reduce: each adds one half and copies the other.
class Roofline {
 public:
  explicit Roofline(int64_t elements) : elements_(elements) {
    for (Rank& rank : ranks_) {
      rank.addend = AlignedBuffer(Bytes(elements * 4));
      rank.sum = AlignedBuffer(Bytes(elements * 4));
    }
    worker_ = std::make_unique<Worker>([this] {
      for (int64_t turn = 0;; ++turn) {
        turn_.wait(turn);
        if (ended_) return;
        meet();
        reduce(1);
      }
    });
  }
  ~Roofline() {
    ended_ = true;
    next_turn();
    worker_->join();
  }

  double run() {
    next_turn();
    meet();
    const auto begin = Clock::now();
    reduce(0);
    return nanoseconds(Clock::now() - begin);
  }

 private:
  struct Rank {
    AlignedBuffer addend, sum;
  };
  float* values(AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

  void reduce(size_t me) {
    const int64_t half = elements_ / 2, mine = me == 0 ? 0 : half;
    const float* a = values(ranks_[0].addend) + mine;
    const float* b = values(ranks_[1].addend) + mine;
    float* sum = values(ranks_[me].sum);
    for (int64_t i = 0; i < half; ++i) sum[mine + i] = a[i] + b[i];
    meet();
    std::memcpy(sum + (half - mine), values(ranks_[1 - me].sum) + (half - mine),
                static_cast<size_t>(half) * 4);
    meet();
  }
  void next_turn() {
    ++turn_;
    turn_.notify_one();
  }
  void meet() {
    const int64_t before = met_.fetch_add(1, std::memory_order_acq_rel);
    while (met_.load(std::memory_order_acquire) < (before / 2 + 1) * 2) {
    }
  }

  int64_t elements_;
  Rank ranks_[2];
  std::atomic<int64_t> turn_{0}, met_{0};
  std::atomic<bool> ended_{false};
  std::unique_ptr<Worker> worker_;
};

/// A program with one all-reduce of a variable and nothing else.
HandMade all_reduce(int64_t elements) {
  HandMade made(line_of(2));
  const std::string type = "f32[" + std::to_string(elements) + "]";
  made.reshard("sum", made.variable("x", type + " {partial sum: dp}", Initializer::constant(0)),
               type);
  return made;
}

/// The cost of an empty step: two threads are woken, and they wake the caller.
Times time_steps() {
  HandMade made(line_of(2));
  made.variable("x", "f32[1]");
  Loaded loaded(std::move(made));
  Times times;
  for (int step = 0; step < 2000; ++step) times.add(loaded.step());
  return times;
}

/// The times of Open MPI's all-reduce with two ranks, in microseconds per call, which a program of
/// its own prints. Empty without MPI.
std::vector<double> mpi_times(int64_t elements) {
  std::vector<double> times;
  const std::string probe = TESSERA_MPI_PROBE;
  if (probe.empty()) return times;
  const std::string command =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 mpirun -n 2 " +
      probe + " " + std::to_string(elements) + " 2>/dev/null";
  FILE* output = popen(command.c_str(), "r");
  if (!output) return times;
  for (double microseconds = 0; std::fscanf(output, "%lf", &microseconds) == 1;)
    times.push_back(microseconds * 1000);
  pclose(output);
  return times;
}

void compare_all_reduce(int64_t elements) {
  constexpr int kRounds = 8, kCalls = 20;
  Times ours, roofline, mpi;
  Roofline bound(elements);
  Loaded loaded(all_reduce(elements));
  for (int round = 0; round < kRounds; ++round) {
    for (int call = 0; call < kCalls; ++call) {
      roofline.add(bound.run());
      ours.add(loaded.step());
    }
    for (double time : mpi_times(elements)) mpi.add(time);
  }
  const double mib = static_cast<double>(elements) * 4 / (1 << 20);
  std::printf("%6.2f MB  ours %7.0f %7.0f us   add and copy %7.0f %7.0f us   of it %.2f %.2f", mib,
              ours.smallest() / 1e3, ours.median() / 1e3, roofline.smallest() / 1e3,
              roofline.median() / 1e3, roofline.smallest() / ours.smallest(),
              roofline.median() / ours.median());
  if (mpi.rounds.empty())
    std::printf("   (no Open MPI here)\n");
  else
    std::printf("   Open MPI %7.0f %7.0f us   faster %.2f %.2f\n", mpi.smallest() / 1e3,
                mpi.median() / 1e3, mpi.smallest() / ours.smallest(), mpi.median() / ours.median());
}

int run() {
  std::printf("%-46s %9s %9s %9s\n", "nanoseconds", "minimum", "median", "target");
  print_nanoseconds("message on one thread", time_messages(), 20);
  print_nanoseconds("act with two messages", time_acts(), 100);
  print_nanoseconds("task of a program, kernel of one element", time_tasks(), 100);
  print_nanoseconds("message to another thread", time_ping_pong(), 300);
  const Times steps = time_steps();
  std::printf("%-46s %9.0f %9.0f\n", "step of two ranks without work", steps.smallest(),
              steps.median());
  std::printf(
      "\nall-reduce of two ranks, a step of a program each; least and median; wanted at 16 MB: 0.8 "
      "of adding and copying, 1.5 times Open "
      "MPI\n");
  for (int64_t elements : {int64_t{1} << 18, int64_t{1} << 20, int64_t{1} << 22, int64_t{1} << 24})
    compare_all_reduce(elements);
  return 0;
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run();
}
