// Many records of the log, looked through in one go: those that lie one behind the other, or those that
// a queue leads to.
//
// This only ever says that a record is whole: by the rules of lib/message/record_check.ts, field by
// field, where nothing about it is unusual. Whatever else lies there ends the look, and the checks in
// TypeScript say what it is and why. tests/message/record_run_test.ts and record_places_test.ts hold
// the two against each other.
//
// The bytes may be anything: nothing is read before it is known to lie within them.

#pragma once

#include "crc32.h"

#ifdef FORCELOG_CRC32

#include <string.h>

namespace records {

// What of a record is told. As in lib/message/record_run.ts: all as numbers of JavaScript.
struct Row {
  double at;
  double size;
  double sys_flag;
  double queue_id;
  double queue_offset;
  double store_timestamp;
  double tags_code;
  // Number of its topic within the run, counted as they come; -1 if queues need to know more of the
  // record than there is room for here.
  double topic;
};

// From lib/message/record_layout.ts: the fields up to the hosts, and what lies behind these.
constexpr size_t kMagicAt = 4;
constexpr size_t kBodyCrcAt = 8;
constexpr size_t kQueueIdAt = 12;
constexpr size_t kQueueOffsetAt = 20;
constexpr size_t kPhysicalOffsetAt = 28;
constexpr size_t kSysFlagAt = 36;
constexpr size_t kBornHostAt = 48;
constexpr size_t kHostV4 = 8;
constexpr size_t kHostV6 = 20;
constexpr size_t kStoreTimestampSize = 8;
constexpr size_t kFromStoreHostToBodyLength = 12;
constexpr size_t kBodyLengthSize = 4;
constexpr size_t kPropertiesLengthSize = 2;
constexpr size_t kRecordMin = 91;
constexpr uint32_t kMagicV1 = 0xdaa320a7;
constexpr uint32_t kMagicV2 = 0xdaa320ab;
constexpr int64_t kSafeIntegerMax = (int64_t{1} << 53) - 1;
constexpr int64_t kQueueOffsetMax = int64_t{1} << 48;
constexpr size_t kTopicMax = 255;
constexpr uint32_t kCrcMask = 0x7fffffff;

// lib/message/sys_flag.ts
constexpr uint32_t kTransactionMask = 0x00c;
constexpr uint32_t kTransactionCommit = 0x008;
constexpr uint32_t kBornHostV6 = 0x010;
constexpr uint32_t kStoreHostV6 = 0x020;
constexpr uint32_t kInnerBatch = 0x080;

// lib/message/properties.ts, property_crc.ts
constexpr uint8_t kNameEnd = 1;
constexpr uint8_t kPropertyEnd = 2;
constexpr size_t kCrcDigits = 10;
constexpr char kCrcName[] = "__CRC32#\x01";
constexpr size_t kCrcNameSize = sizeof kCrcName - 1;
constexpr size_t kCrcProperty = kCrcNameSize + kCrcDigits + 1;

inline uint32_t u32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

inline int32_t i32(const uint8_t* at) { return static_cast<int32_t>(u32(at)); }

inline int64_t i64(const uint8_t* at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return static_cast<int64_t>(__builtin_bswap64(value));
}

inline int16_t i16(const uint8_t* at) { return static_cast<int16_t>(at[0] << 8 | at[1]); }

// A part of a record.
struct Text {
  const uint8_t* from;
  const uint8_t* end;

  size_t size() const { return static_cast<size_t>(end - from); }

  const uint8_t* find(uint8_t byte) const {
    return static_cast<const uint8_t*>(memchr(from, byte, size()));
  }

  bool is(const char* text, size_t length) const {
    return size() == length && memcmp(from, text, length) == 0;
  }

  bool begins(const char* text, size_t length) const {
    return size() >= length && memcmp(from, text, length) == 0;
  }
};

// What a record says of itself.
struct Record {
  int32_t size;
  uint32_t sys_flag;
  int32_t queue_id;
  int64_t queue_offset;
  int64_t store_timestamp;
  Text topic;
  Text properties;
};

// Topics of a run by their number. A place is given to whoever comes last: then a topic may be
// counted again.
class Topics {
 public:
  int number_of(Text topic) {
    size_t hash = topic.size();
    for (const uint8_t* at = topic.from; at < topic.end; at++) hash = hash * 31 + *at;
    Seen& seen = seen_[hash % kPlaces];
    if (seen.number < 0 ||
        !topic.is(reinterpret_cast<const char*>(seen.text.from), seen.text.size())) {
      seen = {topic, count_++};
    }
    return seen.number;
  }

 private:
  struct Seen {
    Text text = {nullptr, nullptr};
    int number = -1;
  };
  static constexpr size_t kPlaces = 64;
  Seen seen_[kPlaces];
  int count_ = 0;
};

// Whether it is usual, and the name of a directory.
inline bool is_plain_topic(Text topic) {
  if (topic.size() == 0 || topic.size() > kTopicMax || *topic.from == '.') return false;
  for (const uint8_t* at = topic.from; at < topic.end; at++) {
    if (*at == 0 || *at == '/' || *at > 0x7f) return false;
  }
  return true;
}

// The CRC that a record claims for itself in its last property; -1 if it claims none.
inline int64_t claimed_crc(Text properties) {
  if (properties.size() < kCrcProperty || properties.end[-1] != kPropertyEnd) return -1;
  const uint8_t* at = properties.end - kCrcProperty;
  if (memcmp(at, kCrcName, kCrcNameSize) != 0) return -1;
  int64_t crc = 0;
  for (const uint8_t* digit = properties.end - 2; digit >= at + kCrcNameSize; digit--) {
    if (*digit < '0' || *digit > '9') return -1;
    crc = crc * 10 + (*digit - '0');
  }
  return crc;
}

// The Java hash of the property TAGS, 0 without it.
//
// @returns False if queues need to know more: another property is about where the record goes, the
//   tag is not ASCII, or there is a zero byte, as where a power cut tore the record.
inline bool tags_code_of(Text properties, int32_t* tags_code) {
  *tags_code = 0;
  if (properties.size() == 0) return true;
  if (properties.find(0) != nullptr) return false;
  for (const uint8_t* from = properties.from; from < properties.end;) {
    Text item = {from, properties.end};
    if (const uint8_t* end = item.find(kPropertyEnd)) item.end = end;
    from = item.end + 1;
    if (item.begins("DELAY\x01", 6) || item.begins("INNER_", 6)) return false;
    // One without a value does not count. Of a repeated name the last one does.
    if (item.size() <= 5 || !item.begins("TAGS\x01", 5)) continue;
    uint32_t hash = 0;
    for (const uint8_t* at = item.from + 5; at < item.end; at++) {
      if (*at > 0x7f) return false;
      hash = hash * 31 + *at;
    }
    *tags_code = static_cast<int32_t>(hash);
  }
  return true;
}

// Looks at the record at the beginning of `bytes`, which lies at `offset` in the log.
//
// @returns Whether it is whole beyond doubt.
inline bool look(Text bytes, int64_t offset, bool check_crc, Record* record) {
  const uint8_t* start = bytes.from;
  if (bytes.size() < kRecordMin) return false;
  const uint32_t magic = u32(start + kMagicAt);
  if (magic != kMagicV1 && magic != kMagicV2) return false;
  const int32_t total_size = i32(start);
  if (total_size < static_cast<int32_t>(kRecordMin)) return false;
  const size_t size = static_cast<size_t>(total_size);
  if (size > bytes.size()) return false;
  const uint8_t* limit = start + size;

  const uint32_t sys_flag = u32(start + kSysFlagAt);
  const size_t store_timestamp_at =
      kBornHostAt + ((sys_flag & kBornHostV6) != 0 ? kHostV6 : kHostV4);
  const size_t body_length_at = store_timestamp_at + kStoreTimestampSize +
                                ((sys_flag & kStoreHostV6) != 0 ? kHostV6 : kHostV4) +
                                kFromStoreHostToBodyLength;
  const size_t body_at = body_length_at + kBodyLengthSize;
  const size_t topic_length_size = magic == kMagicV1 ? 1 : 2;
  // Body, topic and properties.
  if (size < body_at + topic_length_size + kPropertiesLengthSize) return false;
  size_t rest = size - body_at - topic_length_size - kPropertiesLengthSize;
  const int32_t body_length = i32(start + body_length_at);
  if (body_length < 0 || static_cast<size_t>(body_length) > rest) return false;
  rest -= static_cast<size_t>(body_length);
  const Text body = {start + body_at, start + body_at + body_length};

  const int topic_length =
      magic == kMagicV1 ? static_cast<int8_t>(*body.end) : i16(body.end);
  if (topic_length < 0 || static_cast<size_t>(topic_length) > rest) return false;
  rest -= static_cast<size_t>(topic_length);
  const uint8_t* topic_from = body.end + topic_length_size;
  const Text topic = {topic_from, topic_from + topic_length};
  if (!is_plain_topic(topic)) return false;
  const int properties_length = i16(topic.end);
  if (properties_length < 0 || static_cast<size_t>(properties_length) != rest) return false;
  const Text properties = {topic.end + kPropertiesLengthSize, limit};

  const int32_t queue_id = i32(start + kQueueIdAt);
  const int64_t queue_offset = i64(start + kQueueOffsetAt);
  const int64_t store_timestamp = i64(start + store_timestamp_at);
  if (i64(start + kPhysicalOffsetAt) != offset || queue_id < 0) return false;
  if (queue_offset < 0 || queue_offset > kQueueOffsetMax) return false;
  if (store_timestamp < 0 || store_timestamp > kSafeIntegerMax) return false;

  if (check_crc) {
    // Of no bytes it is 0, too.
    if (u32(start + kBodyCrcAt) != (crc32::of(0, body.from, body.size()) & kCrcMask)) return false;
    const int64_t claimed = claimed_crc(properties);
    if (claimed >= 0 &&
        claimed != (crc32::of(0, start, size - kCrcProperty) & kCrcMask)) {
      return false;
    }
  }

  *record = {total_size, sys_flag, queue_id, queue_offset, store_timestamp, topic, properties};
  return true;
}

// What queues need to know of a whole record.
inline void tell(const Record& record, Topics* topics, Row* row) {
  const uint32_t transaction = record.sys_flag & kTransactionMask;
  int32_t tags_code = 0;
  const bool tells_all = (transaction == 0 || transaction == kTransactionCommit) &&
                         (record.sys_flag & kInnerBatch) == 0 &&
                         tags_code_of(record.properties, &tags_code);
  row->size = record.size;
  row->sys_flag = static_cast<int32_t>(record.sys_flag);
  row->queue_id = record.queue_id;
  row->queue_offset = static_cast<double>(record.queue_offset);
  row->store_timestamp = static_cast<double>(record.store_timestamp);
  row->tags_code = tags_code;
  row->topic = tells_all ? topics->number_of(record.topic) : -1;
}

// Looks through the records that begin at `start`, which lies at `offset` in the log, up to the first
// one that is not whole beyond doubt.
//
// @returns How many rows were filled.
inline size_t run(Text bytes, size_t start, int64_t offset, bool check_crc, Row* rows,
                  size_t rows_max) {
  Topics topics;
  size_t count = 0;
  for (size_t at = start; count < rows_max; count++) {
    Record record;
    const int64_t place = offset + static_cast<int64_t>(at - start);
    if (!look({bytes.from + at, bytes.end}, place, check_crc, &record)) break;
    tell(record, &topics, &rows[count]);
    rows[count].at = static_cast<double>(at);
    at += static_cast<size_t>(record.size);
  }
  return count;
}

// Where the unit of a queue leads. As in lib/message/record_places.ts: all as numbers of JavaScript.
struct Place {
  double offset;
  double size;
  double queue_offset;
  // Where it lies in the bytes.
  double at;
};

// Whether it is an integer that is exact, and not negative.
inline bool is_safe(double number) {
  return number >= 0 && number < 0x1p53 && number == static_cast<double>(static_cast<int64_t>(number));
}

// Looks at the records at some places, up to the first one that is not, beyond doubt, the whole record
// of just that message in that queue.
//
// @returns How many they are.
inline size_t each(Text bytes, const Place* places, size_t count, Text topic, int32_t queue_id,
                   bool check_crc) {
  for (size_t i = 0; i < count; i++) {
    const Place& place = places[i];
    if (!is_safe(place.at) || !is_safe(place.size) || !is_safe(place.offset)) return i;
    const size_t at = static_cast<size_t>(place.at);
    const size_t size = static_cast<size_t>(place.size);
    if (at > bytes.size() || size > bytes.size() - at) return i;
    const uint8_t* from = bytes.from + at;
    Record record;
    const int64_t offset = static_cast<int64_t>(place.offset);
    if (!look({from, from + size}, offset, check_crc, &record)) return i;
    if (static_cast<size_t>(record.size) != size || record.queue_id != queue_id ||
        static_cast<double>(record.queue_offset) != place.queue_offset ||
        !record.topic.is(reinterpret_cast<const char*>(topic.from), topic.size())) {
      return i;
    }
  }
  return count;
}

}  // namespace records

#endif  // FORCELOG_CRC32
