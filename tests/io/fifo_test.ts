import fc from "fast-check";
import t from "tap";
import { Fifo } from "../../lib/io/fifo.ts";

t.test("Fifo gives what came first, however it grows and goes round", async (t) => {
  const steps = fc.array(fc.integer({ min: -200, max: 200 }), { maxLength: 60 });
  const holds = fc.property(steps, (counts) => {
    const fifo = new Fifo<number>();
    const model: number[] = [];
    let next = 0;
    for (const count of counts) {
      for (let i = 0; i < count; i++) {
        fifo.push(next);
        model.push(next++);
      }
      for (let i = 0; i > count; i--) {
        if (fifo.first !== model[0] || fifo.shift() !== model.shift()) return false;
      }
      if (fifo.length !== model.length) return false;
    }
    return true;
  });
  t.doesNotThrow(() => fc.assert(holds));
});

t.test("Fifo is as good as new after a burst", async (t) => {
  const fifo = new Fifo<number>();
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 10_000; i++) fifo.push(i);
    for (let i = 0; i < 10_000; i++) if (fifo.shift() !== i) t.fail(`${i}`);
    t.equal(fifo.length, 0);
    t.equal(fifo.first, undefined);
    t.equal(fifo.shift(), undefined);
  }
});
