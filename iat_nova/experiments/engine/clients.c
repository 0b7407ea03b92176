/* SPDX-License-Identifier: Apache-2.0
 *
 * Closed-loop clients: each client has one request under way and sends the next after the reply. A reply that leaves
 * through the network card comes back as the next request after the delay of wire and client. The delay is drawn evenly
 * between half and one and a half of the round trip, because hosts at the other end are never in step.
 */

/* Take the replies that have left, and send the requests due after `from_ns` to `to_ns`. */
static void step_clients(Clients *c, Nics *n, i64 from_ns, i64 to_ns) {
    for (i64 row = 0; row < c->loop_count; row++) {
        Loop *loop = c->loops + row;
        i64 *due = c->due + row * DUE_SLOTS;
        i64 replies = (i64)n->served[loop->target].packets - loop->seen;
        loop->seen += replies;
        for (; replies > 0; replies--) {
            f64 drawn = (f64)draw(&loop->random) / RANDOM_RANGE;
            i64 delay_ns = (i64)((f64)loop->round_trip_ns * (0.5 + drawn));
            /* At the earliest in the next slot: the requests of this slot are sent below. */
            i64 slot = max_i64((to_ns + delay_ns) / SLOT_NS, to_ns / SLOT_NS + 1);
            due[slot % DUE_SLOTS]++;
        }
        for (i64 slot = from_ns / SLOT_NS; slot < to_ns / SLOT_NS; slot++)
            for (i64 *requests = due + slot % DUE_SLOTS; *requests > 0; --*requests) {
                n->flow[loop->stream + loop->next].credit += 1.0;
                loop->next = (loop->next + 1) % loop->streams;
            }
    }
}
