// Actors and mailboxes without a program: random nets of actors over threads without barriers, so
// that messages of many steps are in flight at once. Slots are plain memory: under the thread
// sanitizer, credits alone must keep its readers and writers apart. TESSERA_STRESS and
// TESSERA_STRESS_SEED are as in stress_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "base/threads/worker.h"
#include "runtime/comm/mailbox.h"
#include "runtime/runtime/runtime.h"

namespace tessera {
namespace {

/// A net: the thread of each actor, and the expected results of every iteration.
struct Net {
  std::vector<ActorDescription> actors;  // readers come after their producers
  std::vector<int> thread_of;
  int threads = 1;
  int64_t records = 1;
};

Net random_net(unsigned seed) {
  std::mt19937 dice(seed);
  const auto roll = [&](int low, int high) {
    return low + static_cast<int>(dice() % static_cast<unsigned>(high - low + 1));
  };
  Net net{{}, {}, roll(1, 4), roll(5, 30)};
  const int count = roll(2, 12);
  for (int id = 0; id < count; ++id) {
    net.actors.push_back({.id = id,
                          .name = "a" + std::to_string(id),
                          .inputs = {},
                          .outputs = {{id, roll(1, 4), {}}}});
    net.thread_of.push_back(roll(0, net.threads - 1));
    for (int producer = 0; producer < id; ++producer) {
      if (roll(0, 2) != 0) continue;
      net.actors[id].inputs.push_back({producer, producer});
      net.actors[producer].outputs[0].consumers.push_back(id);
    }
  }
  return net;
}

/// An actor adds the values that it reads, its number and the iteration.
uint64_t value_of(ActorId id, int64_t record, uint64_t sum_of_inputs) {
  return 3 * sum_of_inputs + static_cast<uint64_t>(id) * 1000 + static_cast<uint64_t>(record);
}

/// By iteration and actor, computed one after the other.
std::vector<std::vector<uint64_t>> expected_of(const Net& net) {
  std::vector<std::vector<uint64_t>> values;
  for (int64_t record = 0; record < net.records; ++record) {
    auto& row = values.emplace_back();
    for (const ActorDescription& actor : net.actors) {
      uint64_t sum = 0;
      for (const InPort& in : actor.inputs) sum += row[in.producer];
      row.push_back(value_of(actor.id, record, sum));
    }
  }
  return values;
}

class NetRun {
 public:
  NetRun(Net net, unsigned seed) : net_(std::move(net)), seed_(seed), expected_(expected_of(net_)) {
    std::vector<size_t> capacities(static_cast<size_t>(net_.threads), 1);
    for (const ActorDescription& actor : net_.actors) {
      actors_.emplace_back(actor);
      slots_.emplace_back(static_cast<size_t>(actor.outputs[0].slots), 0);
      capacities[thread_of(actor.id)] += slots_.back().size() * actor.outputs[0].consumers.size();
      for (const InPort& in : actor.inputs)
        capacities[thread_of(actor.id)] +=
            static_cast<size_t>(net_.actors[in.producer].outputs[0].slots);
    }
    for (size_t capacity : capacities) mailboxes_.push_back(std::make_unique<Mailbox>(capacity));
  }

  ///   returns  "" or the failure
  std::string run() {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int thread = 0; thread < net_.threads; ++thread)
      workers.push_back(
          std::make_unique<Worker>([this, thread] { work(static_cast<size_t>(thread)); }));
    for (const auto& worker : workers) worker->join();
    if (timed_out_) return "a thread waited for ever";
    return wrong_ == 0 ? "" : std::to_string(wrong_) + " values are wrong";
  }

 private:
  size_t thread_of(ActorId id) const { return static_cast<size_t>(net_.thread_of[id]); }
  Actor& actor(ActorId id) { return actors_[id]; }

  void work(size_t thread) {
    std::mt19937 dice(seed_ * 31 + static_cast<unsigned>(thread));
    std::vector<Message> sent;
    Message message;
    for (;;) {
      while (mailboxes_[thread]->take(message)) actor(message.to).receive(message);
      if (is_done(thread)) return;
      if (act_where_possible(thread, sent, dice)) continue;
      const SpinPolicy spin_policy{.spins = static_cast<int>(dice() % 20),
                                   .yields = static_cast<int>(dice() % 3)};
      if (mailboxes_[thread]->wait(stop_, spin_policy,
                                   std::chrono::steady_clock::now() + std::chrono::minutes(3)))
        continue;
      timed_out_ = true;
      return;
    }
  }

  bool is_done(size_t thread) {
    for (Actor& one : actors_)
      if (thread_of(one.description().id) == thread &&
          (one.iterations() < net_.records || !one.is_quiescent()))
        return false;
    return true;
  }

  bool act_where_possible(size_t thread, std::vector<Message>& sent, std::mt19937& dice) {
    bool acted = false;
    for (Actor& one : actors_) {
      if (thread_of(one.description().id) != thread || !one.ready() ||
          one.iterations() == net_.records)
        continue;
      acted = true;
      act(one);
      if (dice() % 4 == 0) std::this_thread::yield();
      if (dice() % 200 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      one.finish(sent);
      for (const Message& message : sent)
        thread_of(message.to) == thread ? actor(message.to).receive(message)
                                        : mailboxes_[thread_of(message.to)]->push(message);
      sent.clear();
    }
    return acted;
  }

  void act(Actor& one) {
    const ActorDescription& description = one.description();
    const Act& now = one.begin();
    uint64_t sum = 0;
    for (size_t port = 0; port < description.inputs.size(); ++port)
      sum += slots_[description.inputs[port].producer][now.input_slots[port]];
    const uint64_t value = value_of(description.id, now.iteration, sum);
    slots_[description.id][now.output_slots[0]] = value;
    if (value != expected_[now.iteration][description.id]) ++wrong_;
  }

  Net net_;
  unsigned seed_;
  std::vector<std::vector<uint64_t>> expected_;
  std::vector<Actor> actors_;
  std::vector<std::vector<uint64_t>> slots_;  // by actor
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  StopState stop_;
  std::atomic<bool> timed_out_{false};
  std::atomic<int> wrong_{0};
};

TEST(ActorsStress, ActorsOnThreadsThatNeverMeetGiveWhatASerialRunGives) {
  const char *cases = std::getenv("TESSERA_STRESS"), *first = std::getenv("TESSERA_STRESS_SEED");
  const auto begin = static_cast<unsigned>(first ? std::atoi(first) : 0);
  const auto count = static_cast<unsigned>(cases ? std::atoi(cases) : 150);
  for (unsigned seed = begin; seed < begin + count; ++seed)
    ASSERT_EQ(NetRun(random_net(seed), seed).run(), "")
        << "TESSERA_STRESS=1 TESSERA_STRESS_SEED=" << seed;
}

}  // namespace
}  // namespace tessera
