// The parts of a network over the local transport, whose processes are threads of this test.
#include "runtime/comm/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/testing/waits.h"
#include "runtime/comm/liveness.h"
#include "runtime/comm/on_all_processes.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"

namespace tessera {
namespace {

using namespace testing_transport;
using testing::HasSubstr;

struct Processes {
  int count = 1;
  int delays = 0;
};

class LocalTransports : public testing::TestWithParam<Processes> {};

TEST_P(LocalTransports, KeepTheContract) {
  const auto& [count, delays] = GetParam();
  on_processes(make_local_transports(count, delays, 1),
               [](std::unique_ptr<Transport> mine) { keeps_its_contract(*mine); });
}

TEST_P(LocalTransports, DeliverMessagesWhoseSenderDestroyedItsTransport) {
  const auto& [count, delays] = GetParam();
  std::atomic<bool> has_ended{false};
  on_processes(make_local_transports(count, delays, 1), [&](std::unique_ptr<Transport> mine) {
    const bool is_sender = mine->process() == 0;
    messages_arrive_when_their_sender_ends(std::move(mine), [&] {
      if (is_sender)
        has_ended = true;
      else
        EXPECT_TRUE(comes_true([&] { return has_ended.load(); }));
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, LocalTransports,
                         testing::Values(Processes{1}, Processes{2}, Processes{4},
                                         Processes{3, 20}));

/// work(network of a process) on each.
void on_networks(const Processes& processes, const std::function<void(ProcessNetwork&)>& work) {
  on_processes(make_local_transports(processes.count, processes.delays, 1),
               [&](std::unique_ptr<Transport> mine) {
                 ProcessNetwork network(std::move(mine));
                 work(network);
               });
}

std::vector<std::byte> network_list(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(HostCollectives, AllGatherGivesEveryProcessTheBytesOfAll) {
  on_networks({3, 5}, [](ProcessNetwork& network) {
    GatheredBytes gathered;
    for (const size_t size : {0U, 1U, 5000U, 100000U}) {
      const auto given = [&](int process) {
        return std::vector<std::byte>(size * static_cast<size_t>(process), std::byte(process));
      };
      network.host().all_gather(given(network.process()), gathered, Seconds(60));
      for (int process = 0; process < 3; ++process)
        EXPECT_EQ(network_list(gathered.at(process)), given(process));
    }
  });
}

TEST(HostCollectives, GatherGivesTheFirstProcessTheBytesOfAll) {
  on_networks({3, 5}, [](ProcessNetwork& network) {
    GatheredBytes gathered;
    for (const size_t size : {0U, 5000U}) {
      const auto given = [&](int process) {
        return std::vector<std::byte>(size + static_cast<size_t>(process), std::byte(process));
      };
      network.host().gather(given(network.process()), gathered, Seconds(60));
      for (int process = 0; network.process() == 0 && process < 3; ++process)
        EXPECT_EQ(network_list(gathered.at(process)), given(process));
    }
  });
}

TEST(HostCollectives, ABarrierThatAProcessDoesNotReachEndsAtTheDeadline) {
  on_networks({2}, [](ProcessNetwork& network) {
    if (network.process() == 1) {
      EXPECT_FALSE(network.channel().wait_until(
          [] { return false; }, std::chrono::steady_clock::now() + std::chrono::seconds(60)));
      EXPECT_TRUE(network.stop().stopped());
      return;
    }
    try {
      network.host().barrier(Seconds(0.05));
      ADD_FAILURE() << "process 1 never came";
    } catch (const InternalError& error) {
      EXPECT_THAT(error.what(), HasSubstr("waited 50 ms for process 1"));
      network.fail({0, "", "", std::current_exception()});
    }
  });
}

/// A clock for all processes of a test, which goes on only when the test says so.
class SimulatedClock {
 public:
  using Time = KeepAlive::Clock::time_point;
  std::function<Time()> reader() {
    return [this] { return now(); };
  }
  Time now() const { return Time(std::chrono::seconds(seconds_.load())); }
  void go_on(int seconds) { seconds_ += seconds; }

 private:
  std::atomic<int> seconds_{1};
};

TEST(KeepAlive, ABusyProcessIsWaitedForBeyondTheDeadline) {
  constexpr Seconds kDeadline{100};
  for (const int busy : {0, 2}) {
    SimulatedClock clock;
    std::array<std::atomic<ProcessNetwork*>, 3> networks{};
    const auto work = [&](ProcessNetwork& mine) {
      networks[mine.process()] = &mine;
      mine.host().barrier(kDeadline);  // all are there
      if (mine.process() == busy) {
        const KeepAlive::BusyScope scope(mine.keep_alive(), kDeadline);
        const auto all_others = [&](const std::function<bool(ProcessNetwork&)>& is_so) {
          return comes_true([&] {
            return std::ranges::all_of(networks, [&](const std::atomic<ProcessNetwork*>& other) {
              return other == &mine || is_so(*other);
            });
          });
        };
        EXPECT_TRUE(all_others([](auto& other) { return other.channel().has_waiting_thread(); }));
        for (int time = 0; time < 240; time += 30) {  // more than two deadlines
          clock.go_on(30);
          EXPECT_TRUE(all_others([&](auto& other) {
            return other.keep_alive().last_heard() == clock.now();
          })) << "a heartbeat comes to all after "
              << time << " s";
        }
      }
      EXPECT_NO_THROW(mine.host().barrier(kDeadline))
          << "process " << mine.process() << " waits for " << busy;
      mine.host().barrier(kDeadline);
    };
    on_processes(make_local_transports(3, 0, 1), [&](std::unique_ptr<Transport> transport) {
      ProcessNetwork network(std::move(transport), clock.reader());
      work(network);
    });
  }
}

TEST(KeepAlive, AProcessThatIsNotBusyIsNotWaitedForBeyondTheDeadline) {
  SimulatedClock clock;
  std::atomic<bool> has_thrown{false};
  on_processes(make_local_transports(2, 0, 1), [&](std::unique_ptr<Transport> transport) {
    ProcessNetwork network(std::move(transport), clock.reader());
    network.host().barrier(Seconds(100));
    if (network.process() == 1) {
      EXPECT_TRUE(comes_true([&] {  // process 0 may begin to wait at any time
        clock.go_on(30);
        return has_thrown.load();
      }));
      return;
    }
    EXPECT_THROW(network.host().barrier(Seconds(100)), InternalError);
    has_thrown = true;
  });
}

TEST(ClockComparison, OneClockDiffersFromItselfByAtMostTheStatedError) {
  on_networks({3, 5}, [](ProcessNetwork& network) {
    for (int with = 0; with < 3; ++with) {
      if (with == network.process()) continue;
      const ClockReading clock = network.clocks().compare(with, 20, Seconds(60));
      EXPECT_LE(std::abs(clock.ahead.value()), clock.error.value());
      EXPECT_LT(clock.error, Seconds(60));
    }
    network.host().barrier(Seconds(60));
  });
}

TEST(OnAllProcesses, AFailureOfOneProcessIsThrownInAll) {
  on_networks({3}, [](ProcessNetwork& network) {
    GatheredBytes scratch;
    const auto fail_on_1 = [&] {
      if (network.process() == 1)
        throw UserError("the disk is full", "it is", "free some", ExitCode::kBadData);
    };
    try {
      on_all_processes(network, network.process(), Seconds(60), scratch, fail_on_1);
      ADD_FAILURE() << "process 1 failed";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what_happened(), "the disk is full");
      EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
    }
    on_all_processes(network, network.process(), Seconds(60), scratch, [] {});
  });
}

/// A program with one register slot that another process requests.
class OnePiece : public ProgramPort {
 public:
  OnePiece(std::vector<std::byte> slot, bool is_packed) : slot_(std::move(slot)) {
    SentPiece piece{0, 0, static_cast<int64_t>(slot_.size()), {}, true};
    if (is_packed) {
      const Box box = whole_box({static_cast<int64_t>(slot_.size())});
      piece.packed.push_back({0, 0, BoxCombine(DType::kBool, ReduceOp::kAny, box, box)});
      piece.packed.front().pack.add_source(0, box);
      piece.packed.front().pack.join_dims();
    }
    pieces_.push_back(std::move(piece));
  }
  void take(const Message& message) override {
    taken_.store(message.iteration, std::memory_order_release);
  }
  void note_filled(const Message&) override { is_filled_ = true; }
  std::optional<Answer> answer(const FetchRequest&) override {
    if (!is_filled_) return std::nullopt;
    return Answer{&pieces_, slots_};
  }
  int64_t taken() const { return taken_.load(std::memory_order_acquire); }

 private:
  std::vector<std::byte> slot_;
  const std::vector<const std::byte*> slots_{slot_.data()};
  std::vector<SentPiece> pieces_;
  bool is_filled_ = false;  // with the lock of the channel
  std::atomic<int64_t> taken_{-1};
};

TEST(RemoteFetch, ARequestBeforeTheSlotIsFilledIsAnsweredOnceItIs) {
  for (const bool is_packed : {false, true})
    on_networks({2, 5}, [is_packed](ProcessNetwork& network) {
      const int other = 1 - network.process();
      const auto slot_of = [](int process) {
        return std::vector<std::byte>(3000, std::byte(process + 1));
      };
      OnePiece port(slot_of(network.process()), is_packed);
      network.fetch().reserve_staging(1, Bytes(3000));
      const int program = network.programs().new_program();
      const int tag = network.fetch().new_tags(2);
      std::vector<std::byte> target(3000);
      Countdown in_flight{1};
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      network.fetch().receive(other, tag, target, in_flight);
      network.fetch().request(other, {program, 0, 0, tag, 0});
      EXPECT_EQ(in_flight, 1) << "the slot is not filled";
      network.programs().open(program, port);  // frames may have come before
      network.programs().send(other, program, {Message::Kind::kReady, 0, 0, 0, 7, 0});
      EXPECT_TRUE(
          network.channel().wait_until([&] { return in_flight == 0 && port.taken() == 7; }, end));
      EXPECT_EQ(target, slot_of(other));
      network.host().barrier(Seconds(60));
      network.programs().close(program);
    });
}

/// Processes that end or are stopped are tested with real ones: tests/faults_test.py.
TEST(Liveness, ProcessesThatLeaveOneAfterTheOtherAreNotLost) {
  std::atomic<int> lost{0}, left{0};
  on_networks({4}, [&](ProcessNetwork& network) {
    {
      Liveness liveness(network, Seconds(600), [&](const LostProcess&) { ++lost; }, [] {});
      EXPECT_TRUE(comes_true([&] { return left == network.process(); }));
      // Those that are still here have the time to hear that the one before has left.
      EXPECT_TRUE(stays_false([&] { return lost > 0; }));
    }
    ++left;
  });
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace tessera
