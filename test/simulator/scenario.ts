/** One simulated run: gateways that submit and ask, agents that work, and everything that can break. */
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { DEVICES, SimAgent, type AgentWiring } from './agent.ts';
import { SimBlobs } from './blobs.ts';
import { Callers } from './callers.ts';
import { ControlRules } from './control-rules.ts';
import { deployed, WORKER_QUOTA } from './deployed.ts';
import { FleetRules } from './fleet-rules.ts';
import { PreemptionRules } from './preemption-rules.ts';
import { SimGateway } from './gateway.ts';
import { checkBodies, checkCounts, checkImage, checkWindows, Ledger } from './invariants.ts';
import { Operator } from './operator.ts';
import type { Mutation } from './mutations.ts';
import type { SimScheduler, Wiring } from './scheduler.ts';
import { Cluster, type Finder } from './cluster.ts';
import type { FaultProfile } from './faults.ts';
import { Streams } from './streams.ts';
import { Receivers } from './webhooks.ts';
import { Link, World } from './world.ts';
import type { AgentEvent, SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Op, Outcome } from '../../scheduler/core/ports/store.ts';
import { desiredEvent, dispatchEvent } from '../../scheduler/services/node-events.ts';
import { keyDefaults } from '../../scheduler/core/control/keys.ts';

/** What a run leaves behind. */
export interface Result {
  readonly digest: string;
  readonly acknowledged: number;
  readonly completed: number;
  readonly chunks: number;
  readonly steps: number;
  /** Batches that left while another was in flight. */
  readonly besideAnother: number;
  /** States that were dropped after a failed commit. */
  readonly dropped: number;
  /** Terms that were given out by a shared database, and those of them by an owner's silence. */
  readonly terms: number;
  readonly bySilence: number;
  /** Batches that a shared database refused. */
  readonly refused: number;
  /** Whether the database lost what was acknowledged, so that its schedulers stopped. */
  readonly hasStopped: boolean;
}

/** A session of an agent with a scheduler. */
interface AgentLink {
  readonly agent: SimAgent;
  readonly scheduler: SimScheduler;
  readonly up: Link<AgentEvent[]>;
  readonly down: Link<SchedulerEvent>;
}

const CHAOS_MS = 8_000;
const HEAL_MS = 40_000;
const WEBHOOK_TRIES = 3;
/** Recounting reads whole queues and tables: often enough to catch a breach near its cause, no more. */
const RECOUNT_MS = 400;
const RECOUNT_ROWS_MS = 2_000;
/** Webhooks sent at once: few, so that they wait for each other. */
const DELIVERIES_OPEN = 8;
const DELIVERIES_PER_HOST = 3;

/** Secrets have no part in this world. */
const secrets = { tokenOf: () => '', openEnv: () => ({}), openSecret: () => '' };

export class Scenario {
  readonly world: World;
  readonly #faults: FaultProfile;
  readonly #receivers: Receivers;
  readonly #ledger: Ledger;
  readonly #cluster: Cluster;
  readonly #agents: SimAgent[] = [];
  readonly #agentWiring: AgentWiring;
  readonly #rules = new FleetRules();
  readonly #preemption = new PreemptionRules();
  readonly #controlRules: ControlRules;
  readonly #operator: Operator;
  readonly #gateway: SimGateway<SimScheduler>;
  readonly #callers: Callers;
  readonly #links = new Map<number, AgentLink>();
  /** Each host's way to the owner. */
  readonly #finders = new Map<SimAgent, Finder>();
  readonly #blobs = new SimBlobs();
  readonly #streams = new Streams(this.#blobs);
  #session = 0;
  #steps = 0;
  #rough = true;
  #turn = 0;

  constructor(seed: number, faults: FaultProfile, mutation: Mutation | null = null) {
    this.world = new World(seed);
    this.#faults = faults;
    this.#receivers = new Receivers(this.world, { open: DELIVERIES_OPEN, perHost: DELIVERIES_PER_HOST });
    this.#ledger = new Ledger(this.#receivers, this.#blobs);
    this.#controlRules = new ControlRules(this.#ledger);
    const observe = (op: Op, outcome: Outcome): void => {
      const what = 'seq' in op ? op.seq : op.kind === 'submit' ? `${op.job.seq} ${op.job.id}` : op.kind === 'delivery' ? op.id : '';
      this.world.trace(`op ${op.kind} ${what} ${outcome.kind}`);
      this.#ledger.observe(op, outcome, this.world.clock().wall);
      this.#controlRules.observe(op, outcome, this.world.clock().wall);
    };
    const wiringOf = (scheduler: SimScheduler): Wiring => ({
      reply: (channel, reply) => this.#gateway.reply(channel, reply),
      send: (_node, session, event) => this.#down(session, event),
      sendDesired: ({ session, epoch, workers }, state) => this.#down(session, desiredEvent(state, { epoch, workers }, secrets)),
      sendJob: (effect, input) => this.#down(effect.session, dispatchEvent(effect, input, undefined)),
      closeSession: (_node, session) => this.#breakSession(session),
      post: (delivery, tell) =>
        this.#receivers.post({ delivery, sender: scheduler.name, isOwner: this.#cluster.owner === scheduler }, tell),
      observe,
      check: (image) => {
        this.#steps++;
        checkImage(image);
        this.#rules.check(image);
        this.#preemption.check(image, this.world.now);
        this.#controlRules.check(image);
      },
      down: (isRestarted) => this.#schedulerDown(scheduler, isRestarted),
      alarm: () => void this.#cluster.alarms++,
    });
    const options = {
      mutation,
      secondBatchWrites: faults.secondBatchWrites,
      payloadBytes: faults.inputBytes,
      settings: {
        windowSize: faults.windowSize,
        nodeGraceMs: 2_000,
        silenceMs: 4_000,
        startTimeoutMs: 1_000,
        maxAttempts: 3,
        workerQuota: WORKER_QUOTA,
        deliveriesOpen: DELIVERIES_OPEN,
        deliveriesPerHost: DELIVERIES_PER_HOST,
      },
    };
    this.#cluster = new Cluster(this.world, options, faults, {
      of: wiringOf,
      observe,
      silent: (scheduler) => this.#silent(scheduler),
    });
    this.#agentWiring = {
      connect: (agent, hello) => {
        const scheduler = this.#finderOf(agent).find();
        const image = scheduler?.image ?? null;
        if (scheduler === null || image === null || this.world.random.chance(0.1)) return null;
        const known = image.nodes.get(agent.id);
        if (known === undefined) {
          this.world.after(0, () => this.#replace(agent));
          return null;
        }
        // The shell refuses a second agent while the first one's session is open.
        if (known.session !== null && known.incarnation !== hello.incarnation) return null;
        const session = ++this.#session;
        const up = new Link<AgentEvent[]>(this.world, (events) => scheduler.handle({ kind: 'agent', node: agent.id, session, events }));
        const down = new Link<SchedulerEvent>(this.world, (message) => this.#deliver(agent, session, message));
        this.#links.set(session, { agent, scheduler, up, down });
        scheduler.handle({ kind: 'session-opened', node: agent.id, session, hello });
        return session;
      },
      send: (_agent, session, events) => this.#links.get(session)?.up.send(events),
      entered: (job, token, node) => {
        this.world.trace(`entered ${job} ${token} on ${node}`);
        this.#ledger.entered(job, token);
      },
      blameless: (job, token) => this.#ledger.neighbours.add(job, token),
      ended: (job, token, chunks) => this.#streams.ended(job, token, chunks),
      blobs: this.#blobs,
      mutation,
    };
    for (const name of ['a', 'b', 'c']) this.#agents.push(new SimAgent(this.world, name, this.#agentWiring));
    const finder = this.#cluster.finder();
    this.#gateway = new SimGateway<SimScheduler>(this.world, {
      find: () => finder.find(),
      died: () => this.#streams.gatewayDied(),
    });
    this.#callers = new Callers(this.world, {
      gateway: this.#gateway,
      cluster: this.#cluster,
      blobs: this.#blobs,
      streams: this.#streams,
      receivers: this.#receivers,
      ledger: this.#ledger,
      controlRules: this.#controlRules,
      followedUntil: HEAL_MS,
    });
    this.#operator = new Operator(this.world, {
      image: () => this.#cluster.image,
      command: (command) => this.#cluster.command(command, this.#controlRules.asked(command)),
    });
  }

  run(): Result {
    try {
      this.#setUp();
      this.#chaos();
      if (this.#cluster.isStopped) this.#stopped();
      else {
        this.#heal();
        this.#judge();
      }
    } catch (error) {
      const seed = this.world.seed;
      throw new Error(
        `seed ${seed}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\nreplay: SIM_SEED=${seed} npm test -- test/simulator/${seed % 2 === 0 ? 'even' : 'odd'}-seeds.test.ts\n${this.world.recent(Number(process.env['SIM_TRACE'] ?? 60))}`,
        { cause: error },
      );
    } finally {
      this.#cluster.close();
    }
    const completed = [...this.#callers.ended.values()].filter((state) => state === JobState.COMPLETED).length;
    return {
      digest: this.world.digest(),
      acknowledged: this.#callers.acknowledged.size,
      completed,
      chunks: this.#streams.count,
      steps: this.#steps,
      ...this.#cluster.counts,
      hasStopped: this.#cluster.isStopped,
    };
  }

  #setUp(): void {
    this.#cluster.start();
    this.world.run(this.world.now + 100);
    const ignore = (): void => undefined;
    this.#cluster.command(
      { kind: 'put-key', key: { ...keyDefaults, hash: 'k', account: 'acc', scope: KeyScope.ALL, endpoints: [], name: 'k' } },
      ignore,
    );
    this.#cluster.command({ kind: 'put-webhook-secret', account: 'acc', encrypted: 'the first secret' }, ignore);
    this.#cluster.command({ kind: 'put-join-token', hash: 't' }, ignore);
    for (const agent of this.#agents) {
      this.#cluster.command({ kind: 'join', tokenHash: 't', node: { id: agent.id, name: agent.id, secretHash: '' } }, ignore);
    }
    this.#cluster.command({ kind: 'put-build', account: 'acc', digest: 'd', size: 1 }, ignore);
    this.#cluster.command({ kind: 'deploy', account: 'acc', environment: 'default', build: 'd', endpoints: deployed }, (result) => {
      if ('kind' in result && result.kind === 'deployed') this.#callers.endpoints = result.endpoints.map(({ id }) => id);
    });
    this.world.run(this.world.now + 100);
    if (this.#callers.endpoints.length === 0) throw new Error('nothing was deployed');
    for (const agent of this.#agents) {
      this.#roughen(agent);
      agent.start();
    }
    this.#gateway.connect();
  }

  #chaos(): void {
    const { random } = this.world;
    const { schedulerCrash, diskFull, rival } = this.#faults;
    this.#cluster.break({ crash: schedulerCrash, diskFull, rival }, CHAOS_MS);
    for (let i = 0; i < this.#faults.jobs; i++) this.world.after(random.next() * CHAOS_MS, () => this.#callers.act());
    for (let i = 0; i < this.#faults.agentCrashes; i++) {
      this.world.after(random.next() * CHAOS_MS, () => {
        const agent = random.pick(this.#agents);
        if (!agent.alive) return;
        const { session } = agent;
        agent.crash();
        agent.session = null;
        if (session !== null) this.world.after(random.int(0, 50), () => this.#breakSession(session));
        this.world.after(random.int(60, 1_500), () => agent.start());
      });
    }
    for (let i = 0; i < this.#faults.deviceLosses; i++) {
      this.world.after(random.next() * CHAOS_MS, () => {
        const agent = random.pick(this.#agents);
        const seq = random.pick(DEVICES);
        agent.setDevice(seq, true);
        if (random.chance(0.8)) this.world.after(random.int(10, 3_000), () => agent.setDevice(seq, false));
      });
    }
    for (let i = 0; i < this.#faults.changes; i++) this.world.after(random.next() * CHAOS_MS, () => this.#operator.act());
    const { ruleChanges } = this.#faults;
    for (let i = 1; i <= ruleChanges; i++)
      this.world.after((CHAOS_MS * i) / (ruleChanges + 1), () => this.#operator.isolate(i % 2 === 1 ? 'sandbox' : 'none'));
    for (let i = 0; i < this.#faults.disconnects; i++) {
      this.world.after(random.next() * CHAOS_MS, () => {
        const { session } = random.pick(this.#agents);
        if (session !== null) this.#breakSession(session);
      });
    }
    for (let i = 0; i < this.#faults.channelBreaks; i++)
      this.world.after(random.next() * CHAOS_MS, () => this.#gateway.breakChannel(false));
    for (let i = 0; i < this.#faults.gatewayCrashes; i++)
      this.world.after(random.next() * CHAOS_MS, () => this.#gateway.breakChannel(true));
    for (let at = RECOUNT_MS; at <= CHAOS_MS; at += RECOUNT_MS) {
      this.world.run(this.world.now + RECOUNT_MS);
      // A window's recount reads a whole queue: one endpoint after the other.
      this.#recount([this.#callers.endpoints[this.#turn++ % this.#callers.endpoints.length] ?? ''], at % RECOUNT_ROWS_MS === 0);
    }
  }

  #roughen(agent: SimAgent): void {
    agent.lossRate = this.#rough ? this.#faults.workerLoss : 0;
    agent.failRate = this.#rough ? this.#faults.failingStarts : 0;
  }

  /** The agent of a removed node ends; its host joins anew. */
  #replace(agent: SimAgent): void {
    const at = this.#agents.indexOf(agent);
    if (at === -1 || this.#cluster.image === null || this.#cluster.image.nodes.has(agent.id)) return;
    agent.crash();
    const fresh = new SimAgent(this.world, `${agent.id}'`, this.#agentWiring);
    this.#agents[at] = fresh;
    this.#roughen(fresh);
    this.#join(fresh);
  }

  #join(agent: SimAgent): void {
    const node = { id: agent.id, name: agent.id, secretHash: '' };
    this.#cluster.command({ kind: 'join', tokenHash: 't', node }, (result) => {
      if (!(result instanceof Error)) agent.start();
      else this.world.after(500, () => this.#join(agent));
    });
  }

  #heal(): void {
    this.#cluster.heal();
    this.#rough = false;
    for (const agent of this.#agents) {
      this.#roughen(agent);
      for (const seq of DEVICES) agent.setDevice(seq, false);
    }
    for (let quarter = 1; quarter <= 4; quarter++) {
      this.#operator.heal();
      this.world.run(this.world.now + HEAL_MS / 4);
      this.#recount(this.#callers.endpoints, quarter === 4);
    }
    // A job that waited for a worker that kept its place has its webhook's three tries after that.
    for (let more = 0; more < WEBHOOK_TRIES && this.#receivers.isAnyPending; more++) this.world.run(this.world.now + HEAL_MS / 4);
    for (const job of this.#callers.acknowledged) if (this.#readsAtTheEnd(job)) this.#callers.readStream(job, 0);
    this.world.run(this.world.now + 1_000);
  }

  /** Whoever's stream had chunks, and a few of those without, which have none to give. */
  #readsAtTheEnd(job: string): boolean {
    const { token = 0 } = this.#ledger.byId.get(job) ?? {};
    return this.#streams.made(job, token) > 0 || job.endsWith('3');
  }

  /** After healing: everything acknowledged has ended or was deleted in its time, and nothing is held. */
  #judge(): void {
    const { image, store } = this.#cluster;
    if (image === null) throw new Error('the scheduler did not come back');
    for (const id of this.#callers.acknowledged) {
      const job = this.#ledger.byId.get(id);
      if (job === undefined) throw new Error(`acknowledged job ${id} was never stored`);
      if (this.#ledger.deleted.has(id)) continue;
      // A lowPriority job starts no worker: it may wait for as long as there is none.
      if (job.state === 'IN_QUEUE' && job.priority === 1 && image.endpoints.get(job.endpoint)?.workers.size === 0) continue;
      if (job.state === 'IN_QUEUE' || job.state === 'LEASED')
        throw new Error(`acknowledged job ${id} is still ${job.state} after the world healed`);
      if (store.read('job', job.endpoint, id) === null) throw new Error(`acknowledged job ${id} is lost`);
    }
    for (const { id, state, token, endpoint } of this.#ledger.byId.values())
      // What an endpoint did goes with it, for callers.
      if (state === 'COMPLETED' && this.#callers.acknowledged.has(id) && !this.#ledger.deleted.has(id) && image.endpoints.has(endpoint))
        this.#streams.readToItsEnd(id, token);
    const { unanswered } = this.#gateway;
    if (unanswered.length > 0) throw new Error(`${unanswered.length} requests were never answered: ${unanswered.slice(0, 5).join()}`);
    for (const worker of image.workers.values())
      if (worker.attempts.size > 0) throw new Error(`worker ${worker.id} still holds ${[...worker.attempts.keys()].join()}`);
    checkBodies(image, store);
    this.#receivers.judge(store);
    this.#controlRules.judge(image);
    for (const agent of this.#agents) if (agent.pending > 0) throw new Error(`agent ${agent.id} still holds ${agent.pending} attempts`);
    // A slot is free when the agent says so: nothing is ever sent to one that is taken.
    for (const agent of this.#agents)
      if (agent.overCapacity > 0) throw new Error(`agent ${agent.id}: ${agent.overCapacity} jobs were refused for want of a slot`);
    if (image.waiters.size > 0) throw new Error('waiters are left');
    if (image.streamBytes !== 0) throw new Error(`${image.streamBytes} bytes of chunks are still counted`);
    for (const { usage } of image.endpoints.values()) {
      for (const [operation, { open }] of usage) if (open !== 0) throw new Error(`${operation}: ${open} requests still count as open`);
    }
  }

  #recount(endpoints: readonly string[], rows: boolean): void {
    const { image, store } = this.#cluster;
    if (image === null || !this.#cluster.quiet) return;
    checkCounts(image, store);
    for (const endpoint of endpoints) checkWindows(image, store, endpoint);
    if (rows) this.#controlRules.checkRows(image, store);
  }

  #down(session: number, event: SchedulerEvent): void {
    this.#links.get(session)?.down.send(event);
  }

  #deliver(agent: SimAgent, session: number, event: SchedulerEvent): void {
    if (agent.alive && agent.session === session) agent.receive(event);
  }

  #breakSession(session: number): void {
    const link = this.#links.get(session);
    if (link === undefined) return;
    this.#links.delete(session);
    link.up.open = false;
    link.down.open = false;
    const { agent, scheduler } = link;
    this.world.after(this.world.random.int(0, 30), () => {
      if (agent.session === session) agent.disconnected();
    });
    this.world.after(this.world.random.int(0, 30), () => scheduler.handle({ kind: 'session-closed', node: agent.id, session }));
  }

  /** Its streams are gone. A process that crashed is started again; one that dropped its state takes over by itself. */
  #schedulerDown(scheduler: SimScheduler, isRestarted: boolean): void {
    this.#breakSessionsOf(scheduler);
    this.#receivers.schedulerDown(scheduler.name);
    if (isRestarted) this.#cluster.restart(scheduler);
    this.#gateway.lost(scheduler);
  }

  /** A scheduler does not answer: some clients of it have noticed, the others have not yet. */
  #silent(scheduler: SimScheduler): void {
    const { random } = this.world;
    for (const [session, link] of [...this.#links]) if (link.scheduler === scheduler && random.chance(0.7)) this.#breakSession(session);
    if (this.#gateway.follows(scheduler) && random.chance(0.7)) this.#gateway.breakChannel(false);
  }

  #breakSessionsOf(scheduler: SimScheduler): void {
    for (const [session, link] of [...this.#links]) if (link.scheduler === scheduler) this.#breakSession(session);
  }

  #finderOf(agent: SimAgent): Finder {
    const finder = this.#finders.get(agent) ?? this.#cluster.finder();
    this.#finders.set(agent, finder);
    return finder;
  }

  /** The database lost what was acknowledged: no scheduler goes on with it, and one at least has said so. */
  #stopped(): void {
    this.world.run(this.world.now + HEAL_MS / 4);
    if (this.#cluster.image !== null) throw new Error('a scheduler goes on with a database that is behind');
    if (this.#cluster.alarms === 0) throw new Error('nobody noticed that the database is behind');
  }
}
