/* State of the override: numbers of active blocks in the process, in this thread, and in the thread that called
 * backward(). PyTorch copies the object of a thread to the threads of its autograd engine. */
#pragma once

#include <ATen/ThreadLocalPythonObjects.h>
#include <c10/core/SafePyObject.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace asp_torch {

using Objects = at::impl::ThreadLocalPythonObjects;

/* Numbers of active blocks: all of them, and those with sparse gradients. The object holds no Python object. */
struct Blocks : c10::SafePyObject {
    std::atomic<int64_t> products{0}, sparse_gradients{0};

    Blocks() : SafePyObject(nullptr, nullptr) {}
};

inline const std::string KEY = "autosparse.override.counts";
inline Blocks process;                     /* counts that hold for every thread */
inline std::atomic<int64_t> n_anywhere{0}; /* active blocks of all threads and of the process */

/* Blocks that this thread has entered, and the object that it had inherited when it entered the first of them. */
struct Local {
    std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>();
    std::shared_ptr<c10::SafePyObject> before;

    ~Local()
    { /* a thread may end inside a block */
        n_anywhere -= blocks->products.exchange(0);
        blocks->sparse_gradients = 0;
    }
};

inline Local &local()
{
    static thread_local Local here;
    return here;
}

/* Return a count of this thread, or of the thread from which PyTorch copied its state. */
inline bool is_active(std::atomic<int64_t> Blocks::*count)
{
    if (!n_anywhere.load(std::memory_order_relaxed)) return false;
    if (process.*count || (*local().blocks).*count) return true;
    return Objects::contains(KEY) && static_cast<Blocks &>(*Objects::get(KEY)).*count;
}

inline bool is_on() { return is_active(&Blocks::products); }
inline bool has_sparse_gradients() { return is_active(&Blocks::sparse_gradients); }

inline void enter(bool sparse_gradients)
{
    Local &here = local();
    if (!here.blocks->products) {
        const auto inherited = Objects::contains(KEY) ? Objects::get(KEY) : nullptr;
        if (inherited != here.blocks) {
            here.before = inherited;
            Objects::set(KEY, here.blocks);
        }
    }
    ++here.blocks->products;
    here.blocks->sparse_gradients += sparse_gradients;
    ++n_anywhere;
}

inline void leave(bool sparse_gradients)
{
    Local &here = local();
    --n_anywhere;
    here.blocks->sparse_gradients -= sparse_gradients;
    if (!--here.blocks->products && here.before) {
        Objects::set(KEY, here.before);
        here.before = nullptr;
    }
}

inline void set_process(int64_t products, int64_t sparse_gradients)
{
    n_anywhere += products - process.products.exchange(products);
    process.sparse_gradients = sparse_gradients;
}

/* Forget the blocks of threads that do not exist in the child of a fork. */
inline void keep_own_blocks() { n_anywhere = process.products + local().blocks->products; }

}  // namespace asp_torch
