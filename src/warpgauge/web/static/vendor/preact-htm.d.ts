/** What the page uses of Preact with htm: `htm/preact/standalone.module.js` of htm 3.1.1, unchanged. */
type Component = (properties: any) => unknown;
export function h(type: string | Component, properties: object | null, ...children: unknown[]): unknown;
export function html(parts: TemplateStringsArray, ...values: unknown[]): any;
export function render(what: unknown, where: Element): void;
export function useState<V>(first: V | (() => V)): [V, (next: V | ((before: V) => V)) => void];
export function useEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: unknown[]): void;
export function useRef<V>(first: V): { current: V };
