#include "runtime/mpi/internal/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

/// Receives of messages that are posted at once; further messages wait in the library.
constexpr size_t kPostedReceives = 32;
/// MPI counts bytes in an int.
constexpr size_t kMaxBytesPerCall = 1 << 30;
constexpr int kMessageTag = 0;
/// The tag of the last message of a process to another one, which is empty.
constexpr int kEndTag = 1;
/// The destructor of a transport waits so long for the other processes.
constexpr auto kMaxWaitAtTheEnd = std::chrono::seconds(10);

void check(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw InternalError(std::string(call) + ": " + text.data());
}

class Communicator {
 public:
  Communicator() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  /// Of some of the processes of `all`; each of them calls it.
  ///   tag  of no message on `all`: by the standard it may be, but Open MPI 4.1 makes the group by
  ///        ordinary messages with this tag
  Communicator(const Communicator& all, std::span<const int> processes, int tag) {
    MPI_Group group = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    check(MPI_Comm_group(all.get(), &group), "MPI_Comm_group");
    check(MPI_Group_incl(group, static_cast<int>(processes.size()), processes.data(), &some),
          "MPI_Group_incl");
    check(MPI_Comm_create_group(all.get(), some, tag, &comm_), "MPI_Comm_create_group");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Group_free(&some);
    MPI_Group_free(&group);
  }
  ~Communicator() { MPI_Comm_free(&comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// An element of two bytes is only moved.
MPI_Datatype type_of(DType dtype) {
  if (size_of(dtype) == 2) return MPI_UINT16_T;
  const std::pair<std::string_view, MPI_Datatype> types[] = {
      {"MPI_FLOAT", MPI_FLOAT},     {"MPI_DOUBLE", MPI_DOUBLE}, {"MPI_INT32_T", MPI_INT32_T},
      {"MPI_INT64_T", MPI_INT64_T}, {"MPI_INT8_T", MPI_INT8_T}, {"MPI_UINT8_T", MPI_UINT8_T},
      {"MPI_BYTE", MPI_BYTE},
  };
  for (const auto& [name, type] : types)
    if (name == traits(dtype).mpi) return type;
  throw InternalError("an element type that MPI does not know");
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    check(MPI_Comm_rank(messages_.get(), &process_), "MPI_Comm_rank");
    check(MPI_Comm_size(messages_.get(), &size_), "MPI_Comm_size");
    int has_limit = 0;
    int* limit = nullptr;
    check(MPI_Comm_get_attr(data_.get(), MPI_TAG_UB, &limit, &has_limit), "MPI_Comm_get_attr");
    tags_ = has_limit ? *limit : 32767;
    for (auto& incoming : incoming_) {
      incoming = std::make_unique<MessageBuffer>();
      check(MPI_Recv_init(incoming->bytes.data(), static_cast<int>(kMaxMessageBytes), MPI_BYTE,
                          MPI_ANY_SOURCE, MPI_ANY_TAG, messages_.get(), &incoming->request),
            "MPI_Recv_init");
      check(MPI_Start(&incoming->request), "MPI_Start");
    }
  }

  /// MPI reads a message of 4 KiB from its buffer when the receiver takes it, and a message that
  /// arrives after its communicator was freed reaches a communicator with the same context id. So
  /// all processes end together. Where that fails, the buffers that MPI may still use are not
  /// freed.
  ~MpiTransport() override {
    if (!is_abandoned_ && end_with_the_others()) {
      cancel_receives();
      return;
    }
    for (auto& incoming : incoming_) static_cast<void>(incoming.release());
    for (auto& outgoing : outgoing_) static_cast<void>(outgoing.release());
  }

  int process() const override { return process_; }
  int size() const override { return size_; }
  int tags() const override { return tags_; }

  void send(int to, std::span<const std::byte> message) override {
    ensure(message.size() <= kMaxMessageBytes && to != process_,
           "a message is small and goes to another process");
    send_tagged(to, kMessageTag, message);
  }

  void send_data(int to, int tag, std::span<const std::byte> data, Countdown& in_flight) override {
    post(data, in_flight, [&](std::span<const std::byte> part, MPI_Request& request) {
      check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, data_.get(),
                      &request),
            "MPI_Isend");
    });
  }

  void recv_data(int from, int tag, std::span<std::byte> data, Countdown& in_flight) override {
    post(data, in_flight, [&](std::span<std::byte> part, MPI_Request& request) {
      check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag, data_.get(),
                      &request),
            "MPI_Irecv");
    });
  }

  int split(std::span<const int> processes) override {
    groups_.push_back(std::make_unique<Communicator>(data_, processes, tags_));
    return static_cast<int>(groups_.size()) - 1;
  }

  void start(const Collective& what, GroupStream on, const std::byte* source, std::byte* target,
             Countdown& in_flight) override {
    ensure(on.stream == nullptr, "MPI runs collectives on host memory");
    const MPI_Comm comm = groups_[on.group]->get();
    const MPI_Datatype type = type_of(what.dtype);
    MPI_Request& request = requests_.emplace_back();
    countdowns_.push_back(&in_flight);
    switch (what.kind) {
      case Collective::Kind::kAllReduce:
        return check(
            MPI_Iallreduce(source, target, what.counts.front(), type, MPI_SUM, comm, &request),
            "MPI_Iallreduce");
      case Collective::Kind::kReduceScatter:
        return check(
            MPI_Ireduce_scatter(source, target, what.counts.data(), type, MPI_SUM, comm, &request),
            "MPI_Ireduce_scatter");
      case Collective::Kind::kAllGather: {
        const auto own = std::find(what.processes.begin(), what.processes.end(), process_) -
                         what.processes.begin();
        return check(MPI_Iallgatherv(source, what.counts[own], type, target, what.counts.data(),
                                     what.begins.data(), type, comm, &request),
                     "MPI_Iallgatherv");
      }
    }
  }

  /// Leaves the requests of data alone: MPI cannot cancel what has begun, and without poll()
  /// nothing more begins.
  void abandon() override { is_abandoned_ = true; }

  bool poll(const OnMessage& on_message) override {
    if (is_abandoned_) return false;
    const bool has_messages = take_messages(on_message);
    test_outgoing();
    return finish_data() || has_messages;
  }

 private:
  struct MessageBuffer {
    std::array<std::byte, kMaxMessageBytes> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static void test(MessageBuffer& outgoing) {
    int is_done = 0;
    check(MPI_Test(&outgoing.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  }

  void test_outgoing() {
    for (const auto& outgoing : outgoing_)
      if (outgoing->request != MPI_REQUEST_NULL) test(*outgoing);
  }

  void send_tagged(int to, int tag, std::span<const std::byte> message) {
    MessageBuffer& outgoing = free_outgoing();
    std::ranges::copy(message, outgoing.bytes.begin());
    check(MPI_Isend(outgoing.bytes.data(), static_cast<int>(message.size()), MPI_BYTE, to, tag,
                    messages_.get(), &outgoing.request),
          "MPI_Isend");
    test(outgoing);
  }

  MessageBuffer& free_outgoing() {
    for (const auto& outgoing : outgoing_)
      if (outgoing->request == MPI_REQUEST_NULL) return *outgoing;
    return *outgoing_.emplace_back(std::make_unique<MessageBuffer>());
  }

  template <typename Byte, typename Call>
  void post(std::span<Byte> data, Countdown& in_flight, const Call& call) {
    for (bool is_first = true; is_first || !data.empty(); is_first = false) {
      const auto part = data.first(std::min(data.size(), kMaxBytesPerCall));
      data = data.subspan(part.size());
      if (!is_first) in_flight.fetch_add(1, std::memory_order_relaxed);
      call(part, requests_.emplace_back());
      countdowns_.push_back(&in_flight);
    }
  }

  /// Messages match the receives in the order in which these were posted, so the oldest receive has
  /// the oldest message.
  bool take_messages(const OnMessage& on_message) {
    bool moved = false;
    for (;;) {
      MessageBuffer& oldest = *incoming_[oldest_];
      int is_there = 0;
      MPI_Status status;
      check(MPI_Test(&oldest.request, &is_there, &status), "MPI_Test");
      if (!is_there) return moved;
      int size = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
      if (status.MPI_TAG == kEndTag)
        ++ended_;
      else
        on_message(status.MPI_SOURCE, std::span(oldest.bytes).first(size));
      check(MPI_Start(&oldest.request), "MPI_Start");
      oldest_ = (oldest_ + 1) % kPostedReceives;
      moved = true;
    }
  }

  bool finish_data() {
    if (requests_.empty()) return false;
    int count = 0;
    done_.resize(requests_.size());
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    if (count <= 0) return false;
    for (int i = 0; i < count; ++i) countdowns_[done_[i]]->fetch_sub(1, std::memory_order_release);
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      countdowns_[kept++] = countdowns_[i];
    }
    requests_.resize(kept);
    countdowns_.resize(kept);
    return true;
  }

  /// Leaves the countdowns alone, since their owners may have been destroyed before.
  bool has_ended() {
    test_outgoing();
    int is_data_done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_data_done,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    const auto is_sent = [](const auto& outgoing) { return outgoing->request == MPI_REQUEST_NULL; };
    return ended_ == size_ - 1 && is_data_done != 0 && std::ranges::all_of(outgoing_, is_sent);
  }

  void cancel_receives() {
    for (const auto& incoming : incoming_) {
      MPI_Cancel(&incoming->request);
      MPI_Wait(&incoming->request, MPI_STATUS_IGNORE);
      MPI_Request_free(&incoming->request);
    }
  }

  /// Discards what still arrives, until the last message of every other process has arrived and
  /// nothing of this process is in flight.  returns  false after kMaxWaitAtTheEnd
  bool end_with_the_others() noexcept try {
    const auto end = std::chrono::steady_clock::now() + kMaxWaitAtTheEnd;
    for (int to = 0; to < size_; ++to)
      if (to != process_) send_tagged(to, kEndTag, {});
    while (!has_ended()) {
      if (std::chrono::steady_clock::now() > end) return false;
      if (!take_messages([](int, std::span<const std::byte>) {})) std::this_thread::yield();
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }

  Communicator messages_, data_;
  int process_ = 0, size_ = 1, tags_ = 0;
  std::array<std::unique_ptr<MessageBuffer>, kPostedReceives> incoming_;
  size_t oldest_ = 0;
  int ended_ = 0;  // other processes whose last message has arrived
  bool is_abandoned_ = false;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<std::unique_ptr<MessageBuffer>> outgoing_;
  std::vector<MPI_Request> requests_;  // of data
  std::vector<Countdown*> countdowns_;
  std::vector<int> done_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport() {
  return std::make_unique<MpiTransport>();
}

}  // namespace tessera
