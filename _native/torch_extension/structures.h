/* Validation of the indices of sparse tensors, with memory of structures that were validated. */
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <optional>

#include "operands.h"

namespace asp_torch {

/* Functions of the C runtime, given by address (`addressed_api.h`, `coordinates_api.h`,
 * `structure_api.h`, `look_api.h`, `dense_api.h`). */
struct Runtime {
    int (*product)(int, int, int, int64_t, int64_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, int64_t, uintptr_t,
                   int64_t, int, int);
    int (*scaled_sum)(int, int64_t, int64_t, uintptr_t, double, uintptr_t, int64_t, int64_t, double);
    int (*sampled)(int, int, int64_t, int64_t, uintptr_t, uintptr_t, int64_t, uintptr_t, int64_t, uintptr_t, int64_t,
                   int64_t, int64_t, double, double, uintptr_t, uintptr_t, uintptr_t, int);
    int (*check)(int, int64_t, int64_t, const void *, const void *, int64_t, int);
    uint64_t (*hash)(const void *, int64_t, int);
    int (*coordinates)(int, int64_t, int64_t, int64_t, uintptr_t, int64_t, int64_t, uintptr_t, uintptr_t, int64_t,
                       uintptr_t, int64_t, int, int);
    int (*dense_rows)(int, int64_t, int64_t, const void *, int64_t, int64_t, void *, int64_t, int);
    int (*rows)(int, int, int64_t, int64_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, int64_t, int64_t, uintptr_t, int,
                int);
};
inline Runtime runtime{};

/* Size limits, described in `autosparse/torch/thresholds.py`. */
struct Limits {
    int64_t small, pytorch, direct, unprepared, checked, remembered, pooled_bytes, coordinates, repaid, reduced, rows,
        gradients, sampled;
};
inline Limits limits{};

using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

/* Access to the private member of `c10::VariableVersion`, see `KernelMember`. A tensor and its detached aliases share
 * the object that counts their writes, which identifies them while a reference to it is held. */
const void *counter_of(const c10::VariableVersion &version);
template <auto member> struct OpenedCounter {
    friend inline const void *counter_of(const c10::VariableVersion &version) { return (version.*member).get(); }
};
template struct OpenedCounter<&c10::VariableVersion::version_counter_>;

/* A sparse tensor for which a structure was looked at, and the number of writes to it by then. */
struct Seen {
    c10::VariableVersion counter;
    uint64_t version = 0;

    bool is_of(const Seen &other) const { return counter_of(counter) == counter_of(other.counter); }
};

/* Index arrays whose indices lie inside the matrix. Weak references keep the addresses of their storages from being
 * reused by other storages, without keeping the memory. */
struct Sound {
    const void *storages[2] = {nullptr, nullptr}, *data[2] = {nullptr, nullptr};
    std::optional<Weak> watched[2];
    Seen seen[2]; /* a tensor that stays, as a matrix, and the last other one, as the transpose of a backward pass */
    uint64_t hashes[2] = {0, 0}; /* of the arrays' content, if `id` is not 0 */
    int64_t n_major = 0, n_minor = 0, nnz = -1;
    int64_t n_seen = 0, n_products = 0; /* products before and since the structure is remembered */
    int64_t id = 0;                     /* 0: not remembered, the addresses may belong to other arrays by now */

    bool has_arrays_of(const Sound &other) const
    {
        return n_major == other.n_major && n_minor == other.n_minor && nnz == other.nnz &&
               storages[0] == other.storages[0] && storages[1] == other.storages[1] && data[0] == other.data[0] &&
               data[1] == other.data[1];
    }
};

/* What `validate` has found: the indices are sound; `id` and products of a remembered structure, or 0. */
struct Verdict {
    bool is_sound = false;
    int64_t id = 0, n_products = 0;
};

inline Sound table[64];
inline int64_t n_ids = 0;
inline std::mutex table_lock; /* guards the table; held across a fork, so that the child finds it consistent */

inline Sound identity(const Entries &A)
{
    Sound one;
    for (int at = 0; at < 2; ++at) one.storages[at] = A.arrays[at]->storage().unsafeGetStorageImpl();
    one.data[0] = A.starts;
    one.data[1] = A.indices;
    one.seen[0] = {A.matrix->unsafeGetTensorImpl()->version_counter(), A.version};
    one.n_major = A.n_major();
    one.n_minor = A.n_minor();
    one.nnz = A.nnz;
    return one;
}

inline Sound &slot_of(const Sound &one)
{
    const auto key = reinterpret_cast<uintptr_t>(one.data[1]) ^ reinterpret_cast<uintptr_t>(one.data[0]) >> 3;
    return table[((key >> 4) * 0x9E3779B97F4A7C15u) >> 58];
}

/* Return threads + 1024 * flags for kernels from the caller's settings, which Python holds. */
inline int64_t ask_how()
{
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("autosparse::how", "");
    torch::jit::Stack stack;
    op.callBoxed(&stack);
    return stack[0].toInt();
}

inline void hash_arrays(const Entries &A, uint64_t hashes[2])
{
    const int64_t width = A.is_wide ? 8 : 4;
    const int n_threads = static_cast<int>(ask_how() % 1024);
    hashes[0] = runtime.hash(A.starts, (A.n_major() + 1) * width, n_threads);
    hashes[1] = runtime.hash(A.indices, A.nnz * width, n_threads);
}

/* Return whether all indices of a CSR or CSC matrix lie inside it. */
inline bool check(const Entries &A)
{
    const int64_t last = A.n_major(), end = A.is_wide ? reinterpret_cast<const int64_t *>(A.starts)[last]
                                                      : reinterpret_cast<const int32_t *>(A.starts)[last];
    return end == A.nnz && !runtime.check(A.is_wide, last, A.n_minor(), A.starts, A.indices, A.nnz, 1);
}

/* Find A in the table. If the tensor was written since, only its values may have been: its indices are hashed. So are
 * those of another tensor, before which the arrays may have been written. */
inline bool find(const Entries &A, Sound &now, Verdict *verdict, bool *is_same)
{
    Sound &slot = slot_of(now);
    int64_t id;
    uint64_t then[2];
    {
        const std::lock_guard<std::mutex> guard(table_lock);
        *is_same = slot.has_arrays_of(now);
        if (!*is_same || !slot.id) return false;
        for (const Seen &one : slot.seen) {
            if (!one.is_of(now.seen[0]) || one.version != now.seen[0].version) continue;
            *verdict = {true, slot.id, ++slot.n_products};
            return true;
        }
        id = slot.id;
        then[0] = slot.hashes[0];
        then[1] = slot.hashes[1];
    }
    uint64_t hashes[2];
    hash_arrays(A, hashes);
    if (hashes[0] != then[0] || hashes[1] != then[1]) {
        *is_same = false;
        return false;
    }
    const std::lock_guard<std::mutex> guard(table_lock);
    if (slot.id != id) return false;
    Seen *seen = slot.seen;
    std::swap(seen[!seen->is_of(now.seen[0]) && !seen->counter.unique()], now.seen[0]); /* unique: the tensor is gone */
    *verdict = {true, id, ++slot.n_products};
    return true;
}

/* Return whether all indices of A lie inside the matrix. A structure is checked at each product until it was seen a few
 * times, because a matrix that is created for each product is not worth remembering. */
inline Verdict validate(const Entries &A)
{
    if (!A.starts) return {true, 0, 0}; /* the product checks each index */
    if (A.nnz < limits.checked) return {check(A), 0, 0};
    Sound now = identity(A);
    Verdict verdict;
    bool is_same;
    if (find(A, now, &verdict, &is_same)) return verdict;
    if (!check(A)) return verdict;
    verdict.is_sound = true;
    Sound &slot = slot_of(now);
    bool is_frequent;
    {
        const std::lock_guard<std::mutex> guard(table_lock);
        is_frequent = is_same && slot.has_arrays_of(now) && !slot.id && ++slot.n_seen >= limits.remembered;
        if (!is_same) std::swap(slot, now); /* `now` frees what the slot held, after the lock */
    }
    if (is_frequent) {
        for (int at = 0; at < 2; ++at)
            now.watched[at].emplace(
                c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(A.arrays[at]->storage().unsafeGetStorageImpl()));
        hash_arrays(A, now.hashes);
        const std::lock_guard<std::mutex> guard(table_lock);
        now.id = ++n_ids;
        std::swap(slot, now);
    }
    return verdict;
}

/* Mark every structure as unchecked. */
inline void forget_structures()
{
    const std::lock_guard<std::mutex> guard(table_lock);
    for (Sound &sound : table) sound.nnz = -1;
}

}  // namespace asp_torch
